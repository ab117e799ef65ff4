//go:build guest

package containers

import "embed"

// embedded has the guests that scripts/guest built.
//
//go:embed guest/*.gz
var embedded embed.FS
