package dialect

import "strings"

// ends are what the paths of the shapes end with, below whatever base URL.
var ends = []struct {
	suffix string
	name   Name
}{
	{"/chat/completions", Chat},
	{"/responses", Responses},
	{"/messages", Messages},
	{generate, Generate},
	{streamGenerate, Generate},
}

const (
	generate       = ":generateContent"
	streamGenerate = ":streamGenerateContent"
)

// Of tells in which shape a request asks for a model's turn, by its method and the end
// of its path. Others, such as those for a list of models, are in none.
func Of(method, path string) (Name, bool) {
	if method != "POST" {
		return "", false
	}
	path = withoutQuery(path)
	for _, end := range ends {
		if strings.HasSuffix("/"+strings.TrimPrefix(path, "/"), end.suffix) {
			return end.name, true
		}
	}
	return "", false
}

// modelIn is the model that a path of generateContent names: what is between its last
// slash and its last colon.
func modelIn(path string) string {
	path = withoutQuery(path)
	path = path[strings.LastIndexByte(path, '/')+1:]
	if colon := strings.LastIndexByte(path, ':'); colon >= 0 {
		path = path[:colon]
	}
	return path
}

func withoutQuery(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return path
}
