package share_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/share"
)

// snapshot writes what a router that has sent one prompt believes, and says
// where it sent it.
func snapshot(t *testing.T, n *network, path string) (where string) {
	t.Helper()
	a := join(t, n, 1, newFleet(1, "x", "y", "z"), func(c *share.Config) { c.Snapshot = path })
	ticket := a.begin(prompt("kept"))
	where = ticket.Endpoint()
	end(ticket)
	if err := a.node.Save(); err != nil {
		t.Fatal(err)
	}
	a.stop()
	return where
}

// A router begins with what it believed when it ended.
func TestSnapshotOverARestart(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		path := file(t)
		where := snapshot(t, n, path)
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		f := newFleet(7, "x", "y", "z")
		for _, id := range []string{"x", "y", "z"} {
			f.change(id, func(e *pool.State) { e.ScrapedAt = time.Time{} }) // not asked yet
		}
		b := join(t, n, 1, f, func(c *share.Config) { c.Snapshot = path })
		pass(time.Second)
		if got := b.metric("spillway_router_peer_restored_blocks_total"); got != 0 {
			t.Errorf("%v blocks were restored to endpoints whose life is not known", got)
		}
		for _, id := range []string{"x", "y", "z"} {
			f.change(id, func(e *pool.State) { e.ScrapedAt = time.Now() })
		}
		pass(time.Second)
		if got := b.metric("spillway_router_peer_restored_blocks_total", "file"); got < 100 {
			t.Errorf("%v blocks were restored", got)
		}
		ticket := b.begin(prompt("kept"))
		if ticket.Endpoint() != where {
			t.Errorf("the prompt went to %s, not %s", ticket.Endpoint(), where)
		}
		end(ticket)
	})
}

// A router that ends before it could believe its snapshot passes it on.
func TestSnapshotOverTwoRestarts(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		path := file(t)
		where := snapshot(t, n, path)
		f := newFleet(7, "x", "y", "z")
		for _, id := range []string{"x", "y", "z"} {
			f.change(id, func(e *pool.State) { e.ScrapedAt = time.Time{} })
		}
		b := join(t, n, 1, f, func(c *share.Config) { c.Snapshot = path })
		pass(20 * time.Second)
		if err := b.node.Save(); err != nil {
			t.Fatal(err)
		}
		b.stop()
		c := join(t, n, 1, newFleet(9, "x", "y", "z"), func(c *share.Config) { c.Snapshot = path })
		pass(time.Second)
		for h := range c.router.Holdings {
			if h.Endpoint != where || len(h.Blocks) < 100 || h.Blocks[0].Age < 20*time.Second {
				t.Errorf("%d blocks of an age of %v at %s", len(h.Blocks), h.Blocks[0].Age, h.Endpoint)
			}
		}
		if got := c.metric("spillway_router_peer_restored_blocks_total", "file"); got < 100 {
			t.Errorf("%v blocks were restored", got)
		}
	})
}

// A snapshot that can't be used is left alone with the reason, and the router
// begins without.
func TestSnapshotsThatAreNotUsed(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(t *testing.T, path string)
		edit  func(*share.Config)
		says  string
	}{
		"too old": {spoil: func(*testing.T, string) { pass(11 * time.Minute) }, says: "snapshot_max_age"},
		"another salt": {edit: func(c *share.Config) { c.Salt = []byte("quite another salt of some length") },
			spoil: func(*testing.T, string) {}, says: "another salt"},
		"cut": {spoil: func(t *testing.T, path string) { rewrite(t, path, func(b []byte) []byte { return b[:len(b)-9] }) }, says: "another length"},
		"a bit flipped": {spoil: func(t *testing.T, path string) {
			rewrite(t, path, func(b []byte) []byte { b[len(b)/2] ^= 4; return b })
		}, says: "checksum"},
		"no snapshot": {spoil: func(t *testing.T, path string) {
			rewrite(t, path, func([]byte) []byte { return make([]byte, 100) })
		}, says: "begins otherwise"},
		"empty": {spoil: func(t *testing.T, path string) { rewrite(t, path, func([]byte) []byte { return nil }) }, says: "shorter"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *network) {
				path := file(t)
				snapshot(t, n, path)
				test.spoil(t, path)
				b := join(t, n, 1, newFleet(7, "x", "y", "z"), func(c *share.Config) {
					c.Snapshot = path
					if test.edit != nil {
						test.edit(c)
					}
				})
				pass(time.Second)
				if !b.logged(test.says) || b.metric("spillway_router_peer_restored_blocks_total") != 0 {
					t.Errorf("%v blocks were restored; logged %q", b.metric("spillway_router_peer_restored_blocks_total"), *b.log.all)
				}
			})
		})
	}
}

// An engine that has restarted meanwhile has nothing of what it had.
func TestSnapshotOfAnotherLife(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		path := file(t)
		snapshot(t, n, path)
		f := newFleet(7, "x", "y", "z")
		for _, id := range []string{"x", "y", "z"} {
			f.restart(id)
		}
		b := join(t, n, 1, f, func(c *share.Config) { c.Snapshot = path })
		pass(time.Second)
		if got := b.metric("spillway_router_peer_restored_blocks_total"); got != 0 {
			t.Errorf("%v blocks were restored", got)
		}
	})
}

func TestPlaceOfASnapshotIsChecked(t *testing.T) {
	folder := t.TempDir()
	there := filepath.Join(folder, "there")
	if err := os.WriteFile(there, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		there:                                "",
		filepath.Join(folder, "new"):         "",
		folder:                               folder + " is no regular file",
		filepath.Join(folder, "nowhere/x"):   folder + "/nowhere/x can't be written: no such file or directory",
		filepath.Join(there, "file/no/room"): there + "/file/no/room can't be written: not a directory",
	} {
		got := ""
		if err := share.CheckSnapshot(path); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if left, err := os.ReadDir(folder); len(left) != 1 || err != nil {
		t.Errorf("%v is left, %v", left, err)
	}
	if text, err := os.ReadFile(there); string(text) != "kept" || err != nil {
		t.Errorf("%q was written, %v", text, err)
	}
}

func TestSaveSaysWhatIsWrong(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		a := join(t, n, 1, newFleet(1, "x"), func(c *share.Config) { c.Snapshot = file(t) + "/nowhere/x" })
		if err := a.node.Save(); err == nil {
			t.Error("no error for a folder that is not there")
		}
		b := join(t, n, 2, newFleet(1, "x"), nil)
		if err := b.node.Save(); err != nil {
			t.Errorf("without a file: %v", err)
		}
	})
}

func rewrite(t *testing.T, path string, edit func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, edit(b), 0o600); err != nil {
		t.Fatal(err)
	}
}
