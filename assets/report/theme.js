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

// A colour of the palette that can be seen on the present ground: where that is dark, dark ones
// are lightened, and black becomes white.
function seen(colour) {
  const parts = channels(colour);
  if (!isDark()) return colour;
  const light = (0.3 * parts[0] + 0.59 * parts[1] + 0.11 * parts[2]) / 255;
  const black = Math.max(...parts) < 40;
  const mix = black ? 0.88 : 0.45 * Math.max(0.15, 1 - light / 0.7);
  const lifted = parts.map((it) => Math.round(it + (255 - it) * mix));
  return `#${lifted.map((it) => it.toString(16).padStart(2, "0")).join("")}`;
}
