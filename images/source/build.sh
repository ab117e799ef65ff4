# Builds the program of the module here, or of the directory MAIN: the package there, else the only
# one below. MAIN may also be a package.

main=${MAIN:-}
if [ -d "$main" ]; then
	cd "$main"
	main=
fi
# A module of a workspace that another requires by version would still be looked up at the proxy.
if [ -n "$(go env GOWORK)" ]; then
	go list -m -f '{{.Path}} {{.Dir}}' >/tmp/modules
	while read -r module dir; do
		while read -r _ other; do
			go mod edit -json "$other/go.mod" | awk -v want="\"$module\"," '$1 == "\"Path\":" { path = $2 }
				$1 == "\"Version\":" && path == want { gsub(/[",]/, "", $2); print $2 }'
		done </tmp/modules | sort -u | while read -r version; do
			go work edit -replace="$module@$version=$dir"
		done
	done </tmp/modules
fi
if [ -z "$main" ] && [ "$(go list -e -f '{{.Name}}' .)" = main ]; then
	main=.
fi
if [ -z "$main" ]; then
	main=$(go list -e -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' ./...)
	case $main in
	'') echo "the module has no package main" >&2 && exit 1 ;;
	*[!a-zA-Z0-9./_~-]*) echo "the module has several programs; name the package of one in build.args, as in MAIN: ./cmd/server:
$main" >&2 && exit 1 ;;
	esac
fi
CGO_ENABLED=0 go build -buildvcs=false -o /opt/start -- "$main"
