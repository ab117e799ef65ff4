// Tries ways out of its container, one of TRIES after another, and prints what came of
// each. An entry is [what, how, ...arguments].
import net from "node:net";
import tls from "node:tls";
import dns from "node:dns/promises";

const limit = 20_000;
const proxy = { host: "127.0.3.254", port: 3128 };

// talk writes text and returns all that comes back.
function talk(socket, text) {
  return new Promise((resolve, reject) => {
    let got = "";
    socket.setTimeout(limit, () => socket.destroy(new Error("timeout")));
    socket.on("data", (data) => (got += data));
    socket.on("end", () => resolve(got));
    socket.on("close", () => resolve(got));
    socket.on("error", reject);
    socket.write(text);
    socket.resume();
  });
}

// tunnel is a connection through the proxy.
function tunnel(to) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(proxy);
    socket.on("error", reject);
    let head = "";
    socket.on("data", function read(data) {
      head += data;
      const end = head.indexOf("\r\n\r\n");
      if (end < 0) return;
      socket.off("data", read);
      socket.pause();
      socket.unshift(Buffer.from(head.slice(end + 4)));
      const status = head.split("\r\n")[0];
      status.includes(" 200 ") ? resolve(socket) : reject(new Error(status));
    });
    socket.write(`CONNECT ${to} HTTP/1.1\r\nHost: ${to}\r\n\r\n`);
  });
}

const get = (host) => `GET /x HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`;

const ways = {
  fetch: async (url) => (await fetch(url, { signal: AbortSignal.timeout(limit) })).text(),
  raw: (host, port, text) => talk(net.connect(port, host), text),
  tls: (host, port, servername, name) =>
    talk(tls.connect({ host, port, servername, checkServerIdentity: () => undefined }), get(name)),
  flood: (host, port, size) =>
    talk(net.connect(port, host), `POST / HTTP/1.1\r\nHost: ${host}\r\nContent-Length: ${size}\r\n\r\n` + "x".repeat(size)),
  resolve: async (name) => (await dns.lookup(name)).address,
  connect: async (to, text) => talk(await tunnel(to), text),
  "connect-tls": async (to, servername) =>
    talk(tls.connect({ socket: await tunnel(to), servername, checkServerIdentity: () => undefined }), get(to)),
};

for (const [what, how, ...args] of JSON.parse(process.env.TRIES)) {
  const came = await ways[how](...args).then(
    (text) => String(text).replace(/[\r\n]+/g, " "),
    (err) => `failed: ${err.cause?.code ?? err.code ?? err.message}`,
  );
  console.log(`${what} => ${came}`);
}
