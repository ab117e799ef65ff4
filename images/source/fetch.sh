# Fetches the packages of a Node.js project, and runs no scripts.
if [ -e package-lock.json ] || [ -e npm-shrinkwrap.json ]; then
  npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error
else
  npm install --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error && rm package-lock.json
fi
