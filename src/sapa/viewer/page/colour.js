// Colours: of weights in a kernel, of kernel maps, and those of the theme.

const POSITIVE = { light: [[255, 255, 255], [0, 74, 145]], dark: [[28, 31, 36], [112, 178, 255]] };
const NEGATIVE = { light: [[255, 255, 255], [200, 84, 0]], dark: [[28, 31, 36], [255, 150, 66]] };

// dark blue to pale yellow by way of teal: even steps of lightness, and safe for the colour-blind
const RAMP = [[22, 20, 58], [40, 58, 110], [38, 103, 132], [55, 147, 138], [118, 189, 128], [199, 222, 124], [253, 246, 190]];

function mix(from, to, share) {
  return from.map((value, i) => Math.round(value + (to[i] - value) * share));
}

function css(colour) {
  return `rgb(${colour.join(" ")})`;
}

// the square root keeps 1/25 apart from 0; the scale is the same for all kernels, so that they can be compared
function weightColour(weight, theme) {
  const [zero, full] = (weight < 0 ? NEGATIVE : POSITIVE)[theme];
  return mix(zero, full, Math.min(1, Math.sqrt(Math.abs(weight))));
}

function isDark(colour) {
  return 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2] < 140;
}

function rampColour(share) {
  const place = Math.min(1, Math.max(0, share)) * (RAMP.length - 1);
  const i = Math.min(RAMP.length - 2, Math.floor(place));
  return mix(RAMP[i], RAMP[i + 1], place - i);
}

const RAMP_TABLE = Array.from({ length: 256 }, (_, i) => rampColour(i / 255));

function currentTheme() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen) return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

function toggleTheme(state) {
  document.documentElement.dataset.theme = currentTheme() === "dark" ? "light" : "dark";
  state.changed("theme");
}
