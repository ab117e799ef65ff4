package dockertest

import (
	"context"
	"net/netip"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
)

// Gateway returns this machine's address on the engine's default bridge, where builds can
// reach a test's listeners.
func Gateway(t testing.TB) string {
	t.Helper()
	c := Engine(t)
	ctx, cancel := context.WithTimeout(t.Context(), lookTimeout)
	defer cancel()
	bridge, err := c.NetworkInspect(ctx, "bridge", network.InspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range bridge.IPAM.Config {
		if config.Gateway != "" {
			return config.Gateway
		}
		// If the engine does not report the gateway, it is the first address.
		if subnet, err := netip.ParsePrefix(config.Subnet); err == nil && subnet.Addr().Is4() {
			return subnet.Masked().Addr().Next().String()
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

// DropImage removes an image built by the test.
func DropImage(t testing.TB, ref string) {
	t.Helper()
	c := Engine(t)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), lookTimeout)
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
		_, err = c.ImageRemove(ctx, ref, image.RemoveOptions{})
		return err
	}
	layers, err := c.ImageList(ctx, image.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", "waza.parent="+found.ID))})
	if err != nil {
		return err
	}
	for _, layer := range layers {
		if err := dropImage(ctx, c, layer.ID); err != nil && !errdefs.IsNotFound(err) {
			return err
		}
	}
	_, err = c.ImageRemove(ctx, ref, image.RemoveOptions{Force: true, PruneChildren: true})
	return err
}
