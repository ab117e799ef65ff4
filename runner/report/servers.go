package report

// Servers is the page of how servers fared in a run.
func Servers(r Run, l Links) Page {
	return Page{ID: l.ID(PathServers), Title: "Servers", name: "servers", data: overview{r, l}}
}
