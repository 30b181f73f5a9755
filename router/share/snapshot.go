package share

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spillway-llm/spillway/proto/gen/sharev1"
	"github.com/spillway-llm/spillway/router/route"
)

// A snapshot file is the magic, the length of the body, its SHA-256, and the
// body: a sharev1.Snapshot.
const (
	magic        = "spwsnap1"
	headBytes    = len(magic) + 8 + sha256.Size
	mostSnapshot = 256 << 20
	// fromTomorrow is how far in the future a snapshot may have been taken: by a
	// clock that was set back since.
	fromTomorrow = time.Minute
)

// ErrSnapshot is of a file that is no snapshot, or none for this router; the
// text says why.
var ErrSnapshot = errors.New("not a snapshot that this router can use")

// Save writes what is believed to be cached to Config.Snapshot, replacing what
// stood there in one step. Without such a file it does nothing.
func (n *Node) Save() error {
	if n.config.Snapshot == "" {
		return nil
	}
	now := time.Now()
	n.restore.try(n, now) // what was told a moment ago is not lost
	s := &sharev1.Snapshot{Version: version, SaltProof: n.proof, Router: n.config.Router, TakenAtUnixNanos: now.UnixNano()}
	blocks := 0
	keep := func(h route.Holding) bool {
		encodeHolding(&h, func(part *sharev1.Holding) error { // yield never fails
			s.Holdings = append(s.Holdings, part)
			blocks += len(part.Blocks)
			return nil
		})
		return true
	}
	n.router.Holdings(keep)
	n.restore.waiting(now, keep) // nor is what came from the file that this one replaces
	if err := writeSnapshot(n.config.Snapshot, s); err != nil {
		return fmt.Errorf("snapshot_file: %w", err)
	}
	n.log.Info("what is believed to be cached was written", "snapshot_file", n.config.Snapshot, "blocks", blocks)
	return nil
}

// CheckSnapshot reports whether Save could write to path, without writing there:
// who hears of it only when the router ends has lost what was to be kept.
func CheckSnapshot(path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", path)
	}
	file, err := createBeside(path)
	if err != nil {
		return fmt.Errorf("%s can't be written: %w", path, cmp.Or(errors.Unwrap(err), err))
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// createBeside makes a file that is to take the place of path, readable by this
// user alone.
func createBeside(path string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
}

// packSnapshot is the text of a file.
func packSnapshot(s *sharev1.Snapshot) ([]byte, error) {
	body, err := proto.Marshal(s)
	if err != nil {
		return nil, err
	}
	if len(body) > mostSnapshot {
		return nil, fmt.Errorf("%d bytes are more than the %d that would be read again", len(body), mostSnapshot)
	}
	sum := sha256.Sum256(body)
	text := binary.BigEndian.AppendUint64([]byte(magic), uint64(len(body)))
	return append(append(text, sum[:]...), body...), nil
}

// writeSnapshot replaces a file in one step.
func writeSnapshot(path string, s *sharev1.Snapshot) error {
	text, err := packSnapshot(s)
	if err != nil {
		return err
	}
	file, err := createBeside(path)
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // fails once it is renamed
	if _, err := file.Write(text); err != nil {
		file.Close()
		return err
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// Load reads the file that Save wrote, for Run to restore from. A file that can't
// be used, or is older than Config.SnapshotMaxAge, is logged and left alone: a
// router can begin without.
func (n *Node) Load() {
	if n.config.Snapshot == "" {
		return
	}
	s, err := readSnapshotFile(n.config.Snapshot)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	now := time.Now()
	var age time.Duration
	if err == nil {
		age, err = n.usable(s, now)
	}
	if err != nil {
		n.log.Warn("the snapshot is not used", "snapshot_file", n.config.Snapshot, "error", err)
		return
	}
	for _, h := range s.GetHoldings() {
		n.restore.add(decodeHolding(h, age), fromFile, now)
	}
	n.log.Info("a snapshot was read", "snapshot_file", n.config.Snapshot, "age", age.Round(time.Second), "endpoints", len(s.GetHoldings()))
}

// usable reports how old a snapshot is, or why it is not for this router.
func (n *Node) usable(s *sharev1.Snapshot, now time.Time) (time.Duration, error) {
	age := now.Sub(time.Unix(0, s.GetTakenAtUnixNanos()))
	switch {
	case s.GetVersion() != version:
		return 0, fmt.Errorf("%w: it is of version %d, not %d", ErrSnapshot, s.GetVersion(), version)
	case !hmac.Equal(s.GetSaltProof(), n.proof):
		return 0, fmt.Errorf("%w: it was made with another salt", ErrSnapshot)
	case age > n.config.SnapshotMaxAge:
		return 0, fmt.Errorf("%w: it is %v old, older than snapshot_max_age of %v", ErrSnapshot, age.Round(time.Second), n.config.SnapshotMaxAge)
	case age < -fromTomorrow:
		return 0, fmt.Errorf("%w: it was taken %v from now", ErrSnapshot, -age.Round(time.Second))
	}
	return max(0, age), nil
}

func readSnapshotFile(path string) (*sharev1.Snapshot, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readSnapshot(file)
}

// readSnapshot reads a snapshot, and no more than the most that one may have.
func readSnapshot(r io.Reader) (*sharev1.Snapshot, error) {
	head := make([]byte, headBytes)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, fmt.Errorf("%w: it is shorter than its head", ErrSnapshot)
	}
	if string(head[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: it begins otherwise", ErrSnapshot)
	}
	length := binary.BigEndian.Uint64(head[len(magic):])
	if length > mostSnapshot {
		return nil, fmt.Errorf("%w: it says to have %d bytes", ErrSnapshot, length)
	}
	var body bytes.Buffer
	n, err := io.Copy(&body, io.LimitReader(r, int64(length)+1))
	if err != nil {
		return nil, err
	}
	if n != int64(length) {
		return nil, fmt.Errorf("%w: it has another length than it says", ErrSnapshot)
	}
	if sum := sha256.Sum256(body.Bytes()); !bytes.Equal(sum[:], head[len(magic)+8:]) {
		return nil, fmt.Errorf("%w: its checksum is wrong", ErrSnapshot)
	}
	s := &sharev1.Snapshot{}
	if err := proto.Unmarshal(body.Bytes(), s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	return s, nil
}
