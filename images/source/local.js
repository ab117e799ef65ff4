// Prints the directories of the project here and of the packages of its workspace that it needs, each
// after those that it needs itself.
const fs = require("fs");
const path = require("path");

const seen = new Set();

// linked returns the directory of a package that node_modules only has a link to.
function linked(name, from) {
  for (let at = from; ; at = path.dirname(at)) {
    const found = fs.lstatSync(path.join(at, "node_modules", name), { throwIfNoEntry: false });
    if (found) return found.isSymbolicLink() && fs.realpathSync(path.join(at, "node_modules", name));
    if (at === path.dirname(at)) return;
  }
}

function visit(dir) {
  if (seen.has(dir)) return;
  seen.add(dir);
  const { dependencies, devDependencies, optionalDependencies, peerDependencies } = JSON.parse(fs.readFileSync(path.join(dir, "package.json"), "utf8"));
  for (const name of Object.keys({ ...dependencies, ...devDependencies, ...optionalDependencies, ...peerDependencies })) {
    const local = linked(name, dir);
    if (local) visit(local);
  }
  console.log(dir);
}

visit(process.cwd());
