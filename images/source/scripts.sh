# Runs the install scripts of the packages of the Node.js project here, and builds it, after the
# packages of its workspace that it needs.

project=$PWD
cd "$(npm prefix --no-update-notifier)"
node /network/rebuild.js
(cd "$project" && node /network/local.js) >/tmp/local
while read -r dir; do
	cd "$dir"
	for script in preinstall install postinstall prepare build; do
		npm run --if-present --no-update-notifier "$script" </dev/null
	done
done </tmp/local
cd "$project" && cd "$(npm prefix --no-update-notifier)"
rm -f node_modules/.package-lock.json
find . -name node_modules -prune -o -name .npmrc -exec rm {} + # it may hold a token
