package evidence

import "path/filepath"

// CatalogsFile is in a trial's directory. Like calls.jsonl it is derived from the
// frames, and may be deleted and rebuilt.
const CatalogsFile = "catalogs.jsonl"

// Catalog is one line of catalogs.jsonl: the tools that a server listed in a trial, in
// short.
type Catalog struct {
	Server  string `json:"server"`
	SHA256  string `json:"sha256"`            // as [capture.CatalogHash] has it
	Tools   int    `json:"tools"`             // that the agent was shown
	Hidden  int    `json:"hidden,omitempty"`  // that were kept from it
	Bytes   int    `json:"bytes"`             // of the shown ones' names, descriptions and input schemas, as compact JSON
	Changes int    `json:"changes,omitempty"` // tools that were listed again and differ
}

// Catalogs reads catalogs.jsonl.
func (d Dir) Catalogs() ([]Catalog, error) { return collect(readLines[Catalog](d, CatalogsFile)) }

// WriteCatalogs writes catalogs.jsonl.
func (d Dir) WriteCatalogs(catalogs []Catalog) error {
	lines, err := jsonLines(catalogs)
	if err != nil {
		return err
	}
	return WriteFile(filepath.Join(string(d), CatalogsFile), lines)
}
