// Runs the install scripts of packages as npm install does: an optional package that cannot
// be installed here is left out.
const fs = require("fs");
const { spawnSync } = require("child_process");

const installed = "node_modules/.package-lock.json"; // which npm leaves, except where nothing is installed
const packages = fs.existsSync(installed) ? JSON.parse(fs.readFileSync(installed, "utf8")).packages : {};
for (const [place, one] of Object.entries(packages)) {
  if (!one.hasInstallScript || !place.includes("node_modules/")) continue; // such as a package of the workspace
  const name = place.slice(place.lastIndexOf("node_modules/") + "node_modules/".length);
  const { status } = spawnSync("npm", ["rebuild", "--no-update-notifier", "--loglevel=error", "--", name], { stdio: "inherit" });
  if (status === 0) continue;
  if (!one.optional) process.exit(1);
  fs.rmSync(place, { recursive: true, force: true });
}
