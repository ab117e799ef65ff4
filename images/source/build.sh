# Builds the program of the module here: the package MAIN, else the one in this directory,
# else the only one.

main=${MAIN:-}
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
