// Reads the page's data and builds the page.
const data = JSON.parse(document.getElementById("data").textContent);
const app = document.getElementById("app");
const chunks = new Map();

async function chunk(number) {
  const packed = Uint8Array.from(atob(document.getElementById(`chunk-${number}`).textContent), (one) => one.charCodeAt(0));
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(plain).text());
}
async function kept(id) {
  const number = data.where[id];
  if (number === undefined) return { missing: data.leftOut ? "Its texts were left out to keep this page small: pike serve shows them." : "" };
  if (!chunks.has(number)) {
    if (chunks.size > 24) chunks.delete(chunks.keys().next().value);
    chunks.set(number, chunk(number));
  }
  return (await chunks.get(number))[id];
}

if (data.kind === "live") new Live(app, data);
else new { run: RunPage, index: IndexPage, campaign: CampaignPage }[data.kind](app, data, kept);
