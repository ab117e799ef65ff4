//go:build !guest

package containers

import "embed"

// embedded is empty: without the tag guest, as go install builds it, waza is its own guest.
var embedded embed.FS
