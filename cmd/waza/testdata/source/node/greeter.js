require("ssh2"); // which has an optional dependency in C++, and does without it

const answers = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "greeter", version: "1" } }),
  "tools/list": () => ({ tools: [{ name: "greet", inputSchema: { type: "object" } }] }),
  "tools/call": () => ({ content: [{ type: "text", text: "hello from Node.js" }] }),
};
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (answers[method]) console.log(JSON.stringify({ jsonrpc: "2.0", id, result: answers[method](params) }));
});
