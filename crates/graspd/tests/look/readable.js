// Elements whose own words are hard to tell from what is behind them.
(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], [R, G, B]) =>
    [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
  const light = (color) => {
    const [r, g, b] = color.slice(0, 3).map((it) => {
      const part = it / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (one, two) => {
    const [dark, bright] = [light(one), light(two)].sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
  };
  const chain = (element) => element ? [...chain(element.parentElement), element] : [];
  const scheme = getComputedStyle(document.documentElement).colorScheme;
  const dark = scheme.includes("dark") && matchMedia("(prefers-color-scheme: dark)").matches;
  const canvasColor = dark ? [18, 18, 18, 1] : [255, 255, 255, 1];
  const behind = (element) => chain(element).reduce(
    (below, it) => over(rgba(getComputedStyle(it).backgroundColor), below), canvasColor);
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const words = [...element.childNodes].filter((it) => it.nodeType === 3 && it.data.trim());
    const style = getComputedStyle(element);
    const hidden = element.closest("[aria-hidden=true], svg, script, style, [hidden]")
      || !element.checkVisibility({ visibilityProperty: true }) || element.closest(".skip");
    if (!words.length || hidden) continue;
    const opacity = chain(element).reduce((it, at) => it * Number(getComputedStyle(at).opacity), 1);
    const background = behind(element);
    const [r, g, b, a] = rgba(style.color);
    const contrast = ratio(over([r, g, b, a * opacity], background), background);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (contrast < (large ? 3 : 4.5)) {
      const text = words[0].data.trim().slice(0, 40);
      found.push(`${contrast.toFixed(2)} <${element.localName} class=${element.className}> ${text}`);
    }
  }
  return found;
})()
