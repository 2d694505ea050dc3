"use strict";
// Makes a whole page a little livelier: local times, countdowns, copy buttons, news. Every page says
// all of it without this. Nothing that comes in is ever read as HTML of ours but our own pages.
(() => {
  const { base = "", topic = "", pauseMs, nowMs } = document.body.dataset;
  const PAUSE = Number(pauseMs) || 1000, RETRY = 5000, ITEMS_MAX = 50;
  // The server's clock is the one its deadlines are told in.
  let skew = Number(nowMs) ? Number(nowMs) - Date.now() : 0;
  const now = () => Date.now() + skew;
  const all = (root, what) => [...root.querySelectorAll(what)];

  const two = (n, unit, rest, small) => `${n} ${unit}` + (rest ? ` ${rest} ${small}` : "");
  function span(secs, exact) {
    const s = Math.floor(secs), day = 86400;
    if (s < 60) return `${s} s`;
    if (s < 3600) return two(Math.floor(s / 60), "min", exact ? s % 60 : 0, "s");
    if (s < day) return two(Math.floor(s / 3600), "h", Math.floor(s % 3600 / 60), "min");
    const days = Math.floor(s / day);
    if (days < 7) return two(days, days === 1 ? "day" : "days", Math.floor(s % day / 3600), "h");
    return `${days.toLocaleString("en")} days`;
  }
  function ago(ms) {
    const secs = Math.abs(ms) / 1000;
    return secs < 10 ? "just now" : ms < 0 ? `in ${span(secs)}` : `${span(secs)} ago`;
  }
  const say = (element, text) => { if (element.textContent !== text) element.textContent = text; };
  function tick() {
    for (const it of all(document, "time[data-until]")) {
      const left = Date.parse(it.dateTime) - now();
      say(it, left < 1000 ? "any moment now" : `in ${span(left / 1000, true)}`);
    }
    for (const it of all(document, "time[data-ago]")) say(it, ago(now() - Date.parse(it.dateTime)));
  }

  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  function enhance(root) {
    for (const it of all(root, "time:not([data-ago]):not([data-until]):not([title])")) {
      const time = new Date(it.dateTime);
      if (isNaN(time) || time.getFullYear() >= 9999) continue;
      it.title = it.textContent;
      it.textContent = format.format(time);
    }
    if (!navigator.clipboard) return;
    for (const it of all(root, "code[data-copy]")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "Copy";
      button.setAttribute("aria-label", `Copy ${it.textContent}`);
      button.addEventListener("click", () => navigator.clipboard.writeText(it.textContent).then(
        () => { button.textContent = "Copied"; setTimeout(() => { button.textContent = "Copy"; }, 2000); },
        () => { button.textContent = "Not allowed"; }));
      it.after(button);
    }
  }

  // What the server said last of each part, to leave alone what did not change.
  const seen = new Map(all(document, "[data-live][id]").map((it) => [it.id, it.outerHTML]));
  function focusIn(old) {
    const it = document.activeElement;
    if (!it || !old.contains(it)) return () => {};
    const find = (root) => (it.id && root.querySelector(`#${CSS.escape(it.id)}`))
      || all(root, it.tagName).find((other) => other.getAttribute("href") === it.getAttribute("href")
        && other.textContent === it.textContent);
    return (fresh) => { const again = find(fresh); if (again) again.focus({ preventScroll: true }); };
  }
  function isSelectedIn(it) {
    const marked = getSelection();
    return !!marked && !marked.isCollapsed && marked.containsNode(it, true);
  }
  function replace(page) {
    let left = false;
    for (const old of all(document, "[data-live][id]")) {
      const found = page.getElementById(old.id);
      if (!found || seen.get(old.id) === found.outerHTML) continue;
      if (isSelectedIn(old)) { left = true; continue; }
      seen.set(old.id, found.outerHTML);
      const fresh = document.importNode(found, true), refocus = focusIn(old);
      for (const it of all(old, "details[id][open]")) {
        const again = fresh.querySelector(`#${CSS.escape(it.id)}`);
        if (again) again.open = true;
      }
      enhance(fresh);
      old.replaceWith(fresh);
      refocus(fresh);
    }
    const list = page.getElementById("activity");
    if (list) [...list.children].reverse().forEach((it) => prepend(document.importNode(it, true)));
    if (page.title) document.title = page.title;
    tick();
    return left;
  }

  // The same again has the same key.
  const key = (it) => all(it, ".kind, .said, a").map((at) => at.textContent + at.href).join();
  const stamp = (it) => all(it, "time, .times").map((at) => at.dateTime || at.textContent.padStart(9)).join();
  function prepend(item) {
    const list = document.getElementById("activity");
    const old = list && [...list.children].find((it) => key(it) === key(item));
    if (!list || old && stamp(old) >= stamp(item)) return;
    if (old) old.remove();
    const none = document.getElementById("activity-none");
    if (none) none.remove();
    list.prepend(item);
    while (list.children.length > ITEMS_MAX) list.lastElementChild.remove();
  }
  function made(tag, name, text) {
    const it = document.createElement(tag);
    it.className = name;
    it.textContent = text;
    return it;
  }
  function item({ at, kind, text, repository, name, count }) {
    const li = made("li", "new", ""), time = made("time", "", "just now");
    time.dateTime = new Date(Number(at)).toISOString().slice(0, 19) + "Z";
    time.dataset.ago = "";
    const times = count > 1 ? made("span", "times", `${count} ×`) : "";
    li.append(time, " ", made("span", "kind", kind), " ", times, " ", made("span", "said", text));
    const parts = /^(npub1[02-9ac-hj-np-z]{58})\/(.+)$/s.exec(repository || "");
    if (parts) {
      const link = made("a", "", name || parts[2]);
      link.href = `${base}/${parts[1]}/${encodeURIComponent(parts[2])}.git`;
      li.append(" ", link);
    }
    return li;
  }

  let timer = 0, busy = false, last = -Infinity;
  function look(pause = PAUSE) {
    if (timer || document.hidden) return;
    timer = setTimeout(run, Math.max(0, last + pause - performance.now()));
  }
  async function run() {
    timer = 0;
    if (busy) return look();
    busy = true;
    last = performance.now();
    let again = false;
    try {
      const answer = await fetch(location.href.split("#")[0], { headers: { accept: "text/html" } });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const told = page.body && Number(page.body.dataset.nowMs);
      if (answer.ok && told) skew = told - Date.now();
      again = !answer.ok || replace(page);
    } catch { again = true; }
    busy = false;
    last = performance.now();
    if (again) look(RETRY);
  }

  const mark = document.getElementById("live");
  function show(on) {
    if (!mark) return;
    mark.hidden = false;
    mark.classList.toggle("on", on);
    say(mark, on ? "live" : "not connected");
  }
  let source = null;
  function connect() {
    if (!topic || source || document.hidden) return;
    source = new EventSource(`${base}/api/v1/live`);
    // Something may have happened before this, whether the page is new or was away.
    source.onopen = () => { show(true); look(0); };
    source.onerror = () => {
      show(false);
      if (source && source.readyState === EventSource.CLOSED) {
        source = null;
        setTimeout(connect, RETRY + Math.random() * RETRY);
      }
    };
    source.addEventListener("changed", ({ data }) => {
      try {
        const topics = JSON.parse(data);
        // "repo" alone means all of them.
        if (topics.includes(topic) || topics.includes(topic.split(":")[0])) look();
      } catch { /* not for us */ }
    });
    source.addEventListener("activity", ({ data }) => {
      try { prepend(item(JSON.parse(data))); } catch { /* not for us */ }
    });
  }
  // A browser has few connections to one place; a page nobody sees needs none.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden && source) { source.close(); source = null; show(false); }
    connect();
  });

  enhance(document);
  tick();
  setInterval(tick, 1000);
  connect();
})();
