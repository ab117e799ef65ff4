package report

import (
	"html/template"
	"net/url"
	"strconv"
	"strings"
)

// Paths of pages.
const (
	PathOverview = "overview"
	PathServers  = "servers"
	PathCompare  = "compare"
)

// Links says where pages are: fragments of one file, or paths of a server. An element has
// the same id in both: its page's path, or path/anchor.
type Links struct {
	Base   string // on a server: what stands before each path, without a slash at its end
	InFile bool
	Run    int // of several runs in one file, counted from 1; 0 for the only one
}

// TrialPath is the path of a trial's page.
func TrialPath(task string, number int) string {
	return "trial/" + task + "/" + strconv.Itoa(number)
}

// ID is the id of a page, or of an element of it.
func (l Links) ID(path string, anchor ...string) string {
	if l.Run > 0 {
		path = "run/" + strconv.Itoa(l.Run) + "/" + path
	}
	return strings.Join(append([]string{path}, anchor...), "/")
}

// To is the address of a page, or of an element of it.
func (l Links) To(path string, anchor ...string) template.URL {
	fragment := "#" + escaped(l.ID(path, anchor...))
	switch {
	case l.InFile:
		return template.URL(fragment)
	case len(anchor) == 0:
		return template.URL(l.Base + "/" + escaped(path))
	}
	return template.URL(l.Base + "/" + escaped(path) + fragment)
}

// escaped is a path in a URL. Dots that would lead upwards are names like any other.
func escaped(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if parts[i] = url.PathEscape(part); strings.Trim(part, ".") == "" {
			parts[i] = strings.ReplaceAll(part, ".", "%2E")
		}
	}
	return strings.Join(parts, "/")
}
