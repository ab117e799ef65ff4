// Evaluates assertions. Stdin is JSON: variables, and the expressions over them.
// The last line of stdout is JSON: what came of each.
"use strict";
const fs = require("node:fs");

(async () => {
  const text = fs.readFileSync(0, "utf8");
  process.stdout.write = process.stderr.write.bind(process.stderr); // what expressions print is no answer
  const results = [];
  for (const expression of JSON.parse(text).assertions) {
    // Fresh values each time: no assertion sees what another did to them.
    const variables = JSON.parse(text).variables;
    try {
      const evaluate = new Function(...Object.keys(variables), "require", `"use strict"; return (${expression}\n);`);
      results.push({ holds: Boolean(await evaluate(...Object.values(variables), require)) });
    } catch (problem) {
      results.push({ error: String(problem).slice(0, 300) });
    }
  }
  fs.writeSync(1, JSON.stringify({ results }) + "\n");
})();
