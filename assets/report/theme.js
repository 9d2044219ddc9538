// Dark or light: as the system says, until the reader says otherwise; on paper always light.

const DARK = matchMedia("(prefers-color-scheme: dark)");
const PRINT = matchMedia("print");
const themeListeners = [];

// Calls `hear` whenever colours change.
function onTheme(hear) {
  themeListeners.push(hear);
}

function isDark() {
  if (PRINT.matches) return false;
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : DARK.matches;
}

function tellTheme() {
  document.getElementById("theme").textContent = isDark() ? "Light" : "Dark";
  for (const hear of themeListeners) hear();
}

function remembered(value) {
  // A page opened from a disk may have no memory.
  try {
    if (value === undefined) return localStorage.getItem("vramlab-theme");
    localStorage.setItem("vramlab-theme", value);
  } catch {
    return null;
  }
  return value;
}

function startTheme() {
  const before = remembered();
  if (before === "dark" || before === "light") document.documentElement.dataset.theme = before;
  const button = document.getElementById("theme");
  button.hidden = false;
  button.addEventListener("click", () => {
    const wanted = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = wanted;
    remembered(wanted);
    tellTheme();
  });
  DARK.addEventListener("change", tellTheme);
  PRINT.addEventListener("change", tellTheme);
  tellTheme();
}

// A colour of the style sheet, such as "ink".
function themed(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// `#rrggbb` as three numbers.
function channels(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

// A colour of the palette that can be seen on the present ground: dark ones are lightened
// where the ground is dark.
function seen(colour) {
  const [red, green, blue] = channels(colour);
  if (!isDark()) return colour;
  const light = (0.3 * red + 0.59 * green + 0.11 * blue) / 255;
  const mix = light < 0.12 ? 0.85 : light < 0.45 ? 0.4 : 0.1;
  const lifted = [red, green, blue].map((it) => Math.round(it + (255 - it) * mix));
  return `#${lifted.map((it) => it.toString(16).padStart(2, "0")).join("")}`;
}
