package containers

import (
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/runner/plan"
)

// checkPlatforms refuses what the engine could only emulate. An arm64 is v8, said
// or not.
func (e *engine) checkPlatforms(trials []*plan.Trial) error {
	own := e.info.OSType + "/" + e.arch()
	for _, t := range trials {
		for _, s := range t.Servers {
			wanted := strings.TrimSuffix(strings.ToLower(s.Platform), "/v8")
			if wanted != "" && wanted != own {
				return fmt.Errorf("server %q wants the platform %s and the engine's is %s; remove the platform, or use an engine of that kind", s.Name, s.Platform, own)
			}
		}
	}
	return nil
}
