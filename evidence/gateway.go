package evidence

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// Gateway tells whether the runner's gateway was in the way to the trial's models: its
// plan says so, or what came of it is there. What the agent asks of models another way
// is on no record.
func (d Dir) Gateway(t Trial) bool {
	var plan struct {
		Models json.RawMessage `json:"models"`
	}
	if json.Unmarshal(t.Plan, &plan) == nil && len(plan.Models) > 0 && string(plan.Models) != "null" {
		return true
	}
	_, err := os.Lstat(filepath.Join(string(d), ModelsFile))
	return err == nil
}
