// Elements and attributes that none of our pages has on its own account, and that could do something.
(() => {
  const found = [];
  const tells = (element) => element.outerHTML.slice(0, 200);
  const own = (address) => {
    try { return new URL(address, location.href).origin === location.origin; } catch { return false; }
  };
  const foreign = "iframe, frame, frameset, object, embed, applet, base, style, template, noscript, "
    + "form, input, select, textarea, dialog, video, audio, source, math, marquee, isindex, keygen, "
    + "meta[http-equiv], svg script, svg foreignObject, svg image, svg use, svg a, svg animate, svg set";
  for (const element of document.querySelectorAll(foreign)) found.push(`element: ${tells(element)}`);
  for (const script of document.querySelectorAll("script")) {
    const known = script.src && own(script.src) && new URL(script.src).pathname.startsWith("/assets/");
    if (!known || script.textContent) found.push(`script: ${tells(script)}`);
  }
  for (const link of document.querySelectorAll("link")) {
    if (!own(link.href) || !["icon", "stylesheet"].includes(link.rel)) found.push(`link: ${tells(link)}`);
  }
  const schemes = ["http:", "https:", "mailto:", "nostr:"];
  for (const element of document.querySelectorAll("*")) {
    for (const { name, value } of element.attributes) {
      const plain = name.toLowerCase();
      if (plain.startsWith("on")) found.push(`handler: ${tells(element)}`);
      if (["srcdoc", "srcset", "formaction", "action", "background", "poster", "ping"].includes(plain)) {
        found.push(`attribute: ${tells(element)}`);
      }
      if (["href", "src", "xlink:href", "cite", "data"].includes(plain)) {
        let url;
        try { url = new URL(value, location.href); } catch { continue; }
        if (!schemes.includes(url.protocol)) found.push(`address: ${tells(element)}`);
        if (plain === "src" && !own(value)) found.push(`foreign: ${tells(element)}`);
        if (url.username || url.password) found.push(`credentials: ${tells(element)}`);
      }
      if (plain === "target" && !/noopener/.test(element.rel || "")) found.push(`target: ${tells(element)}`);
    }
  }
  const readme = document.querySelector(".readme");
  for (const element of readme ? readme.querySelectorAll("[style], [id], [name]") : []) {
    // Ids that cannot be taken for one of ours.
    const prefixed = !element.hasAttribute("style") && !element.hasAttribute("name") && /^readme-/.test(element.id);
    if (!prefixed) found.push(`in the README: ${tells(element)}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((it) => it.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) found.push(`id twice: ${id}`);
  return [...new Set(found)];
})()
