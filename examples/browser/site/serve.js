// Serves the pages beside this file on port 8080.
const fs = require("node:fs"), http = require("node:http"), path = require("node:path");

http.createServer((request, response) => {
  const name = path.basename(request.url) || "index.html";
  fs.readFile(path.join(__dirname, name), (err, page) => {
    response.writeHead(err || !name.endsWith(".html") ? 404 : 200, {"Content-Type": "text/html"});
    response.end(err || !name.endsWith(".html") ? "no such page" : page);
  });
}).listen(8080);
