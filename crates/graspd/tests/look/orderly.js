// What a person with a screen reader would stumble over.
(() => {
  const found = [];
  const all = (selector) => [...document.querySelectorAll(selector)];
  const tells = (element) => element.outerHTML.slice(0, 120);
  const labelled = (element) => {
    const ids = (element.getAttribute("aria-labelledby") || "").split(/\s+/).filter(Boolean);
    const text = ids.map((id) => document.getElementById(id)?.textContent || "").join(" ");
    return (element.getAttribute("aria-label") || text).trim();
  };
  const demand = (holds, what) => { if (!holds) found.push(what); };

  demand(document.documentElement.lang, "no language");
  demand(document.title.trim(), "no title");
  demand(all("main").length === 1, "one main part");
  demand(all("h1").length === 1, `${all("h1").length} h1`);
  demand(document.querySelector("meta[name=viewport]"), "no viewport");
  let last = 0;
  for (const heading of all("h1, h2, h3, h4, h5, h6")) {
    const level = Number(heading.localName[1]);
    demand(level <= last + 1, `h${level} after h${last}: ${tells(heading)}`);
    demand(heading.textContent.trim(), `empty heading: ${tells(heading)}`);
    last = level;
  }
  for (const image of all("img")) demand(image.hasAttribute("alt"), `no alt: ${tells(image)}`);
  for (const drawing of all("svg")) {
    const named = labelled(drawing) || drawing.querySelector(":scope > title")?.textContent.trim();
    const quiet = drawing.closest("[aria-hidden=true]");
    demand(quiet || (named && drawing.getAttribute("role") === "img"), `nameless: ${tells(drawing)}`);
  }
  for (const control of all("input:not([type=hidden]), select, textarea")) {
    demand(control.labels?.length || labelled(control), `no label: ${tells(control)}`);
  }
  for (const control of all("a[href], button, summary")) {
    const named = control.textContent.trim() || labelled(control) || control.querySelector("img[alt]:not([alt=''])");
    demand(named, `nameless: ${tells(control)}`);
  }
  for (const link of all("a[href^='#']")) {
    const id = decodeURIComponent(link.hash.slice(1));
    demand(!id || document.getElementById(id), `leads nowhere: ${tells(link)}`);
  }
  for (const element of all("[aria-labelledby], [aria-describedby]")) {
    for (const name of ["aria-labelledby", "aria-describedby"]) {
      for (const id of (element.getAttribute(name) || "").split(/\s+/).filter(Boolean)) {
        demand(document.getElementById(id), `${name} names nothing: ${tells(element)}`);
      }
    }
  }
  const ids = all("[id]").map((it) => it.id);
  for (const id of ids) demand(ids.indexOf(id) === ids.lastIndexOf(id), `id twice: ${id}`);
  for (const table of all("table")) demand(table.querySelector("th"), `no headers: ${tells(table)}`);
  for (const item of all("li")) demand(item.parentElement.matches("ul, ol, menu"), `stray: ${tells(item)}`);
  return found;
})()
