// Prints the shell script that starts the project here: its only program in bin or the one
// of its own name, else main, else its script start.
const fs = require("fs");
const path = require("path");

const project = JSON.parse(fs.readFileSync("package.json", "utf8"));
const quote = (word) => `'${word.replaceAll("'", `'\\''`)}'`;
const isFile = (file) => typeof file === "string" && fs.statSync(file, { throwIfNoEntry: false })?.isFile();

function program() {
  if (typeof project.bin !== "object" || project.bin === null) return project.bin;
  const targets = new Set(Object.values(project.bin));
  return targets.size === 1 ? [...targets][0] : project.bin[String(project.name).replace(/^@.*\//, "")];
}

const file = [program(), project.main, "index.js", "server.js"].find(isFile);
const start = project.scripts?.start;
console.log("#!/bin/sh");
if (file) {
  console.log(`exec node ${quote(path.resolve(file))} "$@"`);
} else if (typeof start === "string") {
  console.log(`exec sh -c ${quote(start + ' "$@"')} sh "$@"`);
} else {
  console.log("echo 'package.json names no program that is there: give it bin, main or a script start, or give the server a command' >&2; exit 1");
}
