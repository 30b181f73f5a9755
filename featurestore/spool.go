package featurestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// spool keeps records on disk while the database is away: segments, written at
// the newest and replayed from the oldest, each deleted when it was replayed.
// What was written survives the end of the process, however it ends; a crash
// of the machine can take what the system had not yet brought to disk.
//
// It is safe for concurrent use; one goroutine replays.
type spool struct {
	home        string // the directory of the configuration
	dir         string // home, or a folder in it
	limit       int64  // bytes of all segments together
	segmentSize int64
	lock        *os.File

	mu       sync.Mutex
	segments []*segment // oldest first; the last is open while file is
	file     *os.File
	next     uint64
	bytes    int64
	rows     int
	trimmed  int // rows dropped when it was opened, for the limit is lower now
}

// segmentsAtLeast is into how many segments the limit is divided, so that a
// full spool drops that share of what it holds at a time.
const segmentsAtLeast = 16

// openSpool opens the spool in dir with what earlier processes left there. A shared
// one is in a folder of its own in dir where another process has dir.
func openSpool(dir string, limit int64, shared bool) (*spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the spool: %w", err)
	}
	s := &spool{home: dir, dir: dir, limit: limit, segmentSize: min(max(limit/segmentsAtLeast, 1), 64<<20)}
	var err error
	s.lock, err = lockSpool(dir)
	if shared && errors.Is(err, errSpoolInUse) {
		s.dir, s.lock, err = openFolder(dir)
	}
	if err != nil {
		return nil, err
	}
	paths, err := segmentsIn(s.dir)
	if err != nil {
		return nil, fmt.Errorf("open the spool: %w", err)
	}
	for _, path := range paths {
		number, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(path), ".spool"), 16, 64)
		if err != nil {
			continue // not ours
		}
		seg, err := survey(path)
		if err != nil {
			s.close()
			return nil, fmt.Errorf("open the spool: %w", err)
		}
		s.segments = append(s.segments, seg)
		s.bytes += seg.size
		s.rows += seg.rows
		s.next = number + 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trimmed = s.trim()
	return s, nil
}

// folderPrefix begins the names of folders of those who share a spool's directory.
const folderPrefix = "beside-"

var errSpoolInUse = errors.New("in use by another process: give each its own")

// openFolder makes a folder of one's own in the directory of a shared spool, and
// locks it; one that another process took over before that is left to it.
func openFolder(home string) (dir string, lock *os.File, err error) {
	for {
		if dir, err = os.MkdirTemp(home, folderPrefix); err != nil {
			return "", nil, fmt.Errorf("open the spool: %w", err)
		}
		lock, err = lockSpool(dir)
		if !errors.Is(err, errSpoolInUse) && !errors.Is(err, fs.ErrNotExist) {
			return dir, lock, err
		}
	}
}

// lockSpool keeps a second process out of dir.
func lockSpool(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the spool: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("the spool directory %s is %w", dir, errSpoolInUse)
	}
	// Who had the lock may have removed it since it was opened here.
	if there, err := os.Stat(f.Name()); err != nil || !same(f, there) {
		_ = f.Close()
		return nil, fmt.Errorf("the spool directory %s is %w", dir, errSpoolInUse)
	}
	return f, nil
}

func same(f *os.File, there fs.FileInfo) bool {
	here, err := f.Stat()
	return err == nil && os.SameFile(here, there)
}

// segmentsIn lists the segments in dir, oldest first.
func segmentsIn(dir string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.spool"))
	slices.Sort(paths)
	return paths, err
}

// adopt takes over what ended processes left in the folders of a spool that is or
// was shared. It returns how many rows came, and how many were dropped for the limit.
func (s *spool) adopt() (came, dropped int, err error) {
	folders, err := filepath.Glob(filepath.Join(s.home, folderPrefix+"*"))
	if err != nil {
		return 0, 0, err
	}
	for _, dir := range append(folders, s.home) {
		if dir == s.dir {
			continue
		}
		c, d, adopting := s.adoptFrom(dir)
		came, dropped, err = came+c, dropped+d, errors.Join(err, adopting)
	}
	return came, dropped, err
}

func (s *spool) adoptFrom(dir string) (came, dropped int, err error) {
	lock, err := lockSpool(dir)
	if errors.Is(err, errSpoolInUse) || errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil // its process lives, or another took it over
	}
	if err != nil {
		return 0, 0, err
	}
	defer lock.Close()
	paths, err := segmentsIn(dir)
	if err != nil {
		return 0, 0, err
	}
	for _, path := range paths {
		seg, err := survey(path)
		if err != nil {
			return came, dropped, fmt.Errorf("take over a spool: %w", err)
		}
		d, err := s.add(seg)
		if err != nil {
			return came, dropped, fmt.Errorf("take over a spool: %w", err)
		}
		came, dropped = came+seg.rows, dropped+d
	}
	if dir != s.home {
		forget(dir)
	}
	return came, dropped, nil
}

// add moves another's segment to the end of this spool.
func (s *spool) add(seg *segment) (dropped int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := segmentPath(s.dir, s.next)
	if err := os.Rename(seg.path, path); err != nil {
		return 0, err
	}
	s.seal()
	s.next++
	seg.path = path
	s.segments = append(s.segments, seg)
	s.bytes += seg.size
	s.rows += seg.rows
	return s.trim(), nil
}

// forget removes the folder of one that shared a spool, which holds nothing but its
// lock.
func forget(dir string) {
	_ = os.Remove(filepath.Join(dir, "lock"))
	_ = os.Remove(dir)
}

func (s *spool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		_ = s.file.Sync()
	}
	s.seal()
	if s.dir != s.home && len(s.segments) == 0 {
		forget(s.dir)
	}
	_ = s.lock.Close()
}

// held returns how much the spool holds.
func (s *spool) held() (bytes int64, rows int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes, s.rows
}

// append writes records at the end. To keep the limit it drops the oldest
// segments and returns how many rows went with them. On an error the first
// kept records are written and the others are not; a full disk is one.
func (s *spool) append(records []record) (kept, dropped int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var frames []byte
	pending := 0
	write := func() error {
		if pending == 0 {
			return nil
		}
		n, err := s.write(frames, pending)
		dropped += n
		if err == nil {
			kept += pending
		}
		frames, pending = frames[:0], 0
		return err
	}
	for _, r := range records {
		frames = appendFrame(frames, r)
		pending++
		if int64(len(frames)) >= s.segmentSize {
			if err := write(); err != nil {
				return kept, dropped, err
			}
		}
	}
	err = write()
	return kept, dropped, err
}

// write adds whole frames to the newest segment, or none of them.
func (s *spool) write(frames []byte, rows int) (dropped int, err error) {
	if size := int64(len(frames) + len(segmentMagic)); size > s.limit {
		return 0, fmt.Errorf("%d bytes do not fit a spool of %d", size, s.limit)
	}
	if s.file != nil && s.segments[len(s.segments)-1].size+int64(len(frames)) > s.segmentSize {
		s.seal()
	}
	if s.file == nil {
		if err := s.open(); err != nil {
			return 0, err
		}
	}
	seg := s.segments[len(s.segments)-1]
	if _, err := s.file.Write(frames); err != nil {
		// Part of a frame may be there: take it back, or end the segment
		// before it.
		if s.file.Truncate(seg.size) != nil {
			s.seal()
		}
		return 0, fmt.Errorf("write to the spool: %w", err)
	}
	seg.size += int64(len(frames))
	seg.rows += rows
	s.bytes += int64(len(frames))
	s.rows += rows
	return s.trim(), nil
}

// open begins a new segment.
func (s *spool) open() error {
	f, err := os.OpenFile(segmentPath(s.dir, s.next), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("begin a spool segment: %w", err)
	}
	s.next++
	if _, err := f.WriteString(segmentMagic); err != nil {
		_ = f.Close()
		_ = os.Remove(f.Name())
		return fmt.Errorf("begin a spool segment: %w", err)
	}
	s.file = f
	magic := int64(len(segmentMagic))
	s.segments = append(s.segments, &segment{path: f.Name(), size: magic, read: magic})
	s.bytes += magic
	return nil
}

// seal ends the newest segment; an error of the disk shows when it is read.
// It does not wait for the disk: it would hold up those who append.
func (s *spool) seal() {
	if s.file == nil {
		return
	}
	_ = s.file.Close()
	s.file = nil
}

// trim drops the oldest segments until the limit is kept and returns how many
// rows went.
func (s *spool) trim() (dropped int) {
	for s.bytes > s.limit && len(s.segments) > 1 {
		dropped += s.segments[0].rows
		s.remove()
	}
	return dropped
}

// remove deletes the oldest segment.
func (s *spool) remove() {
	seg := s.segments[0]
	if len(s.segments) == 1 {
		s.seal()
	}
	_ = os.Remove(seg.path)
	s.segments = s.segments[1:]
	s.bytes -= seg.size
	s.rows -= seg.rows
}

// replay is a part of the spool taken out to be written to the database.
type replay struct {
	records []record
	damaged int // frames that cannot be read

	segment *segment
	to      int64 // offset after the records
}

// oldest returns up to n of the oldest records, all from one segment. The
// records stay until done is called. Nothing is left when segment is nil.
func (s *spool) oldest(n int) (replay, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.segments) == 0 {
		return replay{}, nil
	}
	seg := s.segments[0]
	r := replay{segment: seg}
	to, err := seg.framesFrom(seg.read, func(payload []byte) bool {
		if len(r.records)+r.damaged == n {
			return false
		}
		if rec, err := decodeRecord(payload); err != nil {
			r.damaged++
		} else {
			r.records = append(r.records, rec)
		}
		return true
	}, func(error) { r.damaged++ })
	if err != nil {
		return replay{}, fmt.Errorf("read the spool: %w", err)
	}
	r.to = to
	return r, nil
}

// done forgets what r held. It returns how many rows of a segment that ends
// with r were never readable, and false when the segment was dropped meanwhile,
// with its rows counted then.
func (s *spool) done(r replay) (lost int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.segments) == 0 || s.segments[0] != r.segment {
		return 0, false
	}
	seg := r.segment
	n := min(len(r.records)+r.damaged, seg.rows)
	seg.rows -= n
	s.rows -= n
	seg.read = r.to
	if seg.read >= seg.size {
		lost = seg.rows
		s.remove()
	}
	return lost, true
}

// abandon drops the oldest segment, which cannot be read, and returns how many
// rows went with it.
func (s *spool) abandon() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.segments) == 0 {
		return 0
	}
	rows := s.segments[0].rows
	s.remove()
	return rows
}
