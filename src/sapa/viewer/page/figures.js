// The feature maps side by side, as in the paper, and the texts that depend on the report.

function makeFigures(state) {
  const { report } = state;
  const gallery = document.getElementById("figures");
  const [C, Cg] = report.channels;
  const entries = [
    ["encoder", `${report.size.join("×")}, ${Cg} channels`, report.encoder],
    ["decoder", `${report.low.join("×")}, ${C} channels`, report.decoder],
    ...report.upsamplers.map((u) => [u.name, u.error === null ? "" : `error ${u.error.toFixed(3)}`, u.picture]),
  ];
  for (const [name, note, source] of entries) {
    const figure = makeElement("figure", "");
    gallery.append(figure);
    makeMap(state, figure, {
      label: `Feature map: ${name}`,
      source,
      caption: [makeElement("strong", "", name), makeElement("span", "value", note)],
    });
  }
  const colours = report.colours ? `channels ${report.colours.join(", ")}` : "the first three principal components";
  const hasErrors = report.upsamplers.some((u) => u.error !== null);
  document.getElementById("figures-note").textContent =
    `Colours are ${colours}, the same for all maps of one space.` +
    (hasErrors ? " The error is the mean absolute difference from the encoder map, of which the decoder map is a mean over cells." : "");
}

function writeTexts(report) {
  const [Kh, Kw] = report.window;
  document.getElementById("lead").textContent =
    "An upsampler makes each point of a large map from a few points of a small one. Move over the picture: the frame is a window " +
    `of ${Kh}×${Kw} low-res points, and each card shows how much one upsampler takes from each of them. In a smooth region the ` +
    "weights of SAPA are all alike; at an edge they split, and a point takes from its own side.";
  const meanings = {
    weights: "How much of each low-res point the high-res one takes. Hatched places lie outside the map; empty ones are never used.",
    entropy: "How spread the weights are: 0 bits for one point alone, log₂ n bits for n equal ones. “Draws from n points” is 2 to this power.",
    maps: report.isPhotograph
      ? "Features are cosines of random projections of the colour, so that like colours have like features. The encoder map has " +
        "them at full size, the decoder map their means over cells. No network is involved."
      : "The encoder map and the decoder map were given, as they are inside a network.",
  };
  if (report.upsamplers.some((u) => u.kind === "derivative")) {
    meanings["derivative by each low-res point"] =
      "This upsampler is not a sum with weights that can be read off. The numbers say how the mean of the output's channels moves with " +
      "a low-res point: its value, and what it does to the weights, together.";
  }
  if (report.upsamplers.some((u) => u.hasGate)) {
    meanings["before its gate"] =
      "The output is gate × guide + (1 − gate) × weighted sum. The numbers are those of the weighted sum.";
  }
  if (report.upsamplers.some((u) => u.isTrained === false)) {
    meanings.untrained = "This upsampler has parameters and was shown as it is before training; its picture means little.";
  }
  const list = document.getElementById("meanings");
  for (const [term, text] of Object.entries(meanings)) {
    list.append(makeElement("div", "", makeElement("dt", "", term), makeElement("dd", "", text)));
  }
}
