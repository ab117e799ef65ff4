package images

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// CheckStart returns an error if the Node.js project in dir starts no program: package.json names no existing
// program, and no script in it could create one. Errors are single sentences that end with what to do.
func CheckStart(dir fs.FS) error {
	data := packageJSON(dir)
	if data == nil {
		return nil // the build's error is more precise
	}
	member := func(name string) []byte { return jsontext.Member(data, name) }
	script := func(name string) string { return scriptOf(data, name) }
	there := func(file string) bool {
		file = path.Clean(file)
		info, err := fs.Stat(dir, file)
		return fs.ValidPath(file) && err == nil && !info.IsDir()
	}
	named := []string{jsontext.Text(member("main")), jsontext.Text(member("bin"))}
	for _, file := range jsontext.Members(member("bin")) {
		named = append(named, jsontext.Text(file))
	}
	for word := range strings.FieldsSeq(script("start")) {
		if slices.Contains([]string{".js", ".mjs", ".cjs"}, path.Ext(word)) {
			named = append(named, word)
		}
	}
	named = slices.DeleteFunc(named, func(file string) bool { return file == "" })
	switch {
	case Makes(dir) || slices.ContainsFunc(append(named, "index.js", "server.js"), there):
		return nil
	case len(named) > 0:
		return fmt.Errorf("package.json starts %s, which is not there, and has no script build that could make it; add that script, or name the program, as in waza init -- node server.js", named[0])
	case script("start") != "":
		return nil
	}
	if packages := workspacesOf(dir, member("workspaces")); len(packages) > 0 {
		return fmt.Errorf("package.json starts no program: it is the root of a workspace, whose packages are %s; name the one that is the server, as in waza init %s", strings.Join(packages, ", "), packages[0])
	}
	return fmt.Errorf("package.json starts no program; give it bin, main or a script start, or name the program, as in waza init -- node server.js")
}

// packageJSON returns the package.json in dir, or nil if it cannot be read.
func packageJSON(dir fs.FS) []byte {
	data, err := fs.ReadFile(dir, "package.json")
	if err != nil || !jsontext.Valid(data) {
		return nil
	}
	return data
}

func scriptOf(data []byte, name string) string {
	return jsontext.Text(jsontext.Member(jsontext.Member(data, "scripts"), name))
}

// Makes reports whether the Node.js project in dir has a script that may create files during the build of its
// image.
func Makes(dir fs.FS) bool {
	data := packageJSON(dir)
	return slices.ContainsFunc([]string{"preinstall", "install", "postinstall", "prepare", "build"}, func(name string) bool { return scriptOf(data, name) != "" })
}

// CheckBuild returns an error if the build of the Node.js project in dir, which belongs to no workspace,
// compiles TypeScript with a compiler that neither package.json nor its lock file names.
func CheckBuild(dir fs.FS) error {
	data := packageJSON(dir)
	lock, _ := fs.ReadFile(dir, "package-lock.json")
	if slices.Contains(strings.Fields(scriptOf(data, "build")), "tsc") && !bytes.Contains(slices.Concat(data, lock), []byte("typescript")) {
		return errors.New("the script build of package.json runs tsc, and no package brings that; add it with npm install --save-dev typescript")
	}
	return nil
}

// maxPackages is the maximum number of packages of a workspace that a message names.
const maxPackages = 8

// workspacesOf returns the directories of a workspace's packages.
func workspacesOf(dir fs.FS, workspaces []byte) (found []string) {
	if inner := jsontext.Member(workspaces, "packages"); inner != nil {
		workspaces = inner
	}
	for raw := range jsontext.Elements(workspaces) {
		manifests, err := fs.Glob(dir, path.Join(path.Clean(jsontext.Text(raw)), "package.json"))
		for _, manifest := range manifests {
			if err == nil && len(found) < maxPackages {
				found = append(found, path.Dir(manifest))
			}
		}
	}
	return found
}
