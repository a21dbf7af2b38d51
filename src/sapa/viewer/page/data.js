// The report: pictures decoded, weights unpacked, and the geometry of the two grids.

function readReport() {
  return JSON.parse(document.getElementById("report").textContent);
}

async function unpack(report) {
  const [H, W] = report.size;
  for (const upsampler of report.upsamplers) {
    const [Kh, Kw] = upsampler.kernelSize;
    const packed = upsampler.weights;
    const bytes = await inflate(packed.bytes);
    const count = Kh * Kw * H * W;
    const levels = new Uint16Array(count);
    for (let i = 0; i < count; i++) levels[i] = (bytes[i] << 8) | bytes[count + i];
    upsampler.weights = { low: packed.low, step: (packed.high - packed.low) / 65535, levels };
  }
  const pictures = [report.photo, report.encoder, report.decoder, ...report.upsamplers.map((u) => u.picture)];
  const [photo, encoder, decoder, ...outputs] = await Promise.all(pictures.map(decodePicture));
  Object.assign(report, { photo, encoder, decoder });
  report.upsamplers.forEach((upsampler, i) => { upsampler.picture = outputs[i]; });
  report.decoderPixels = pixelsOf(decoder);
  return report;
}

async function inflate(text) {
  if (!("DecompressionStream" in window)) throw new Error("it needs a browser of 2023 or later.");
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function decodePicture(address) {
  const image = new Image();
  image.src = address;
  await image.decode();
  return image;
}

function pixelsOf(image) {
  const canvas = document.createElement("canvas");
  canvas.width = image.naturalWidth;
  canvas.height = image.naturalHeight;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  return context.getImageData(0, 0, canvas.width, canvas.height);
}

// c(p) = floor((p + 1/2) * low / high), in whole numbers
function centre(p, high, low) {
  return Math.floor(((2 * p + 1) * low) / (2 * high));
}

function centreOf(report, point) {
  return {
    row: centre(point.row, report.size[0], report.low[0]),
    column: centre(point.column, report.size[1], report.low[1]),
  };
}

function isInside(report, row, column) {
  return row >= 0 && column >= 0 && row < report.low[0] && column < report.low[1];
}

function weightAt(report, upsampler, tap, point) {
  const [H, W] = report.size;
  const { low, step, levels } = upsampler.weights;
  return low + step * levels[(tap * H + point.row) * W + point.column];
}

// the taps of a point: place in the window from its middle, weight, and whether there is a low-res point
function tapsOf(report, upsampler, point) {
  const [Kh, Kw] = upsampler.kernelSize;
  const middle = centreOf(report, point);
  const taps = [];
  for (let i = 0; i < Kh; i++) {
    for (let j = 0; j < Kw; j++) {
      const down = i - (Kh - 1) / 2;
      const right = j - (Kw - 1) / 2;
      const weight = weightAt(report, upsampler, i * Kw + j, point);
      taps.push({ down, right, weight, inside: isInside(report, middle.row + down, middle.column + right) });
    }
  }
  return taps;
}

// in bits, of the weights taken as shares; 2 to its power is the number of points a kernel of equal weights would have
function entropyOf(weights) {
  let total = 0;
  let sum = 0;
  for (const weight of weights) {
    const size = Math.abs(weight);
    if (size > 0) {
      total += size;
      sum += size * Math.log2(size);
    }
  }
  return total > 0 ? Math.max(0, Math.log2(total) - sum / total) : 0;
}
