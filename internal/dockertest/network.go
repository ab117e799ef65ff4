package dockertest

import (
	"context"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// SecurityOptions returns the engine's security options, such as "name=rootless".
func SecurityOptions(t testing.TB) []string {
	t.Helper()
	c := Engine(t)
	ctx, cancel := context.WithTimeout(t.Context(), lookTimeout)
	defer cancel()
	found, err := c.Info(ctx, client.InfoOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return found.Info.SecurityOptions
}

// Gateway returns this machine's address on the engine's default bridge, where builds can
// reach a test's listeners.
func Gateway(t testing.TB) string {
	t.Helper()
	c := Engine(t)
	ctx, cancel := context.WithTimeout(t.Context(), lookTimeout)
	defer cancel()
	bridge, err := c.NetworkInspect(ctx, "bridge", client.NetworkInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range bridge.Network.IPAM.Config {
		if config.Gateway.IsValid() {
			return config.Gateway.String()
		}
		// If the engine does not report the gateway, it is the first address.
		if config.Subnet.IsValid() && config.Subnet.Addr().Is4() {
			return config.Subnet.Masked().Addr().Next().String()
		}
	}
	Miss(t, "the engine's default bridge has no gateway")
	return ""
}

// ImageID returns the id of an image on the engine, or "" if there is none.
func ImageID(t testing.TB, ref string) string {
	t.Helper()
	c := Engine(t)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), lookTimeout)
	defer cancel()
	found, err := c.ImageInspect(ctx, ref)
	if err != nil {
		return ""
	}
	return found.ID
}

// dropTimeout is how long a busy engine may take for an image with many files.
const dropTimeout = 5 * time.Minute

// DropImage removes an image built by the test.
func DropImage(t testing.TB, ref string) {
	t.Helper()
	c := Engine(t)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), dropTimeout)
	defer cancel()
	if err := dropImage(ctx, c, ref); err != nil {
		t.Errorf("remove image %s: %v", ref, err)
	}
}

// dropImage removes a name of an image. The last name also removes the image, after the
// images that waza built on it: other tests may use an identical image under another name.
func dropImage(ctx context.Context, c *client.Client, ref string) error {
	found, err := c.ImageInspect(ctx, ref)
	if err != nil {
		return err
	}
	if len(found.RepoTags) > 1 && found.ID != ref {
		_, err = c.ImageRemove(ctx, ref, client.ImageRemoveOptions{})
		return err
	}
	layers, err := c.ImageList(ctx, client.ImageListOptions{All: true, Filters: client.Filters{}.Add("label", "waza.parent="+found.ID)})
	if err != nil {
		return err
	}
	for _, layer := range layers.Items {
		if err := dropImage(ctx, c, layer.ID); err != nil && !errdefs.IsNotFound(err) {
			return err
		}
	}
	_, err = c.ImageRemove(ctx, ref, client.ImageRemoveOptions{Force: true, PruneChildren: true})
	return err
}
