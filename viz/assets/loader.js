// Loader: inflates the style sheet, the body and the program; the content security policy knows the
// hashes of what has effects.
(async () => {
const packed = Uint8Array.from(atob(document.getElementById("program").textContent), (c) => c.charCodeAt(0));
const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
const [style, body, program] = (await new Response(stream).text()).split("\0");
document.body.insertAdjacentHTML("afterbegin", body);
for (const [tag, content] of [["style", style], ["script", program]]) {
const node = document.createElement(tag);
node.textContent = content;
document.body.append(node);
}
})().catch(() => document.body.prepend("This browser is too old for this page: it cannot unpack what is inside."));
