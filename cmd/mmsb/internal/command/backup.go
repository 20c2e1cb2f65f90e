// mmsb store backup and pull: copy stores to directories and buckets, and bring them back.

package command

import (
	"strings"

	"github.com/spf13/cobra"

	"libmmsb/cmd/mmsb/internal/archive"
	"libmmsb/cmd/mmsb/internal/bucket"
	"libmmsb/core/file"
	"libmmsb/core/status"
	"libmmsb/core/store"
)

// copiedShown is what was copied, in JSON.
type copiedShown struct {
	Target  string `json:"target"`
	Files   int    `json:"files"`
	Linked  int    `json:"linked"`
	Bytes   int64  `json:"bytes"`
	Removed int    `json:"removed"`
}

// copied tells what was copied.
func (r *run) copied(target string, c store.Copied, asJSON bool, show sizes) {
	if asJSON {
		encoded(r.out, copiedShown{target, c.Files, c.Linked, c.Bytes, c.Removed})
		return
	}
	_, _ = r.out.WriteString(count(uint64(c.Files), "file") + ": " + decimal(uint64(c.Linked)) + " linked, " +
		show.within(uint64(c.Bytes)) + " copied; " + count(uint64(c.Removed), "file") + " removed\n")
}

const aboutBuckets = `A bucket is s3://BUCKET/PREFIX, of S3 or of a server that speaks its language. Where that is, and who may
use it, the environment says (AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and so on), or the files of
the AWS tools.`

func (r *run) storeBackup() *cobra.Command {
	c := &cobra.Command{Use: "backup DIR TARGET", Short: "copy a store, also while a process writes it",
		Long: `backup makes TARGET a copy of a store: a directory that is missing or empty, a place in a bucket, or an older
backup of the same store, which gets what is new and loses what the store no longer has. Records that only a living writer's
process has (those of the last interval) are not in it. mmsb store pull brings it back.

An older backup in a directory is a store at every moment, also if backup is interrupted; a first one is none before its end, and
is finished by running backup again. Nobody may write TARGET meanwhile. Files that never change are linked where both are on one
file system. A file of an older backup that has the right size is not read: where mmsb store verify finds it damaged, remove it,
and run backup again.

A store with a snapshot that is damaged so that its header cannot be read is not copied, and an older backup stays as it is.

` + aboutBuckets + `
An older backup there stays whole until the new one is. A backup that was interrupted goes on where it was when it is run again,
also within a large file. Only one at a time can go to a place.`,
		Example: "  mmsb store backup state/ /mnt/backups/state/\n  mmsb store backup state/ s3://backups/state",
		Args:    takes("a DIRectory and a TARGET", 2, 2), ValidArgsFunction: directories}
	asJSON, show := jsonFlag(c), bytesFlag(c)
	c.RunE = func(_ *cobra.Command, arguments []string) error {
		to := store.Directory(r.FS, arguments[1])
		if strings.HasPrefix(arguments[1], bucket.Scheme) {
			place, err := bucket.Open(r.ctx, arguments[1])
			if err != nil {
				return err
			}
			to = &archive.Target{Objects: place}
		}
		bar := r.bar("copying")
		copied, err := store.Backup(r.FS, arguments[0], to, func(done, total uint64) { bar.bytes(done, total) })
		bar.clear()
		if err != nil {
			return err
		}
		r.copied(arguments[1], copied, *asJSON, *show)
		return nil
	}
	return c
}

func (r *run) storePull() *cobra.Command {
	c := &cobra.Command{Use: "pull BACKUP TARGET", Short: "bring a store back from a backup",
		Long: `pull makes TARGET, a directory that is missing or empty, the store that mmsb store backup has copied to BACKUP,
a directory or a place in a bucket. It verifies every snapshot and every record before TARGET is there, whole or not at all: it
fills a directory beside TARGET, so TARGET cannot be where a file system is mounted. What has come stays there where pull was
interrupted, and is not read from the bucket again when pull is run again.

` + aboutBuckets,
		Example: "  mmsb store pull s3://backups/state state/\n  mmsb store pull /mnt/backups/state/ state/",
		Args:    takes("a BACKUP and a TARGET", 2, 2), ValidArgsFunction: directories}
	asJSON, show := jsonFlag(c), bytesFlag(c)
	c.RunE = func(_ *cobra.Command, arguments []string) error {
		stage, err := stage(r.FS, arguments[1])
		if err != nil {
			return err
		}
		copied, err := r.pull(arguments[0], stage)
		if err == nil {
			err = stage.publish()
		}
		if err != nil {
			stage.leave()
			return err
		}
		r.copied(arguments[1], copied, *asJSON, *show)
		return nil
	}
	return c
}

// pull fills a directory from a backup, and verifies it. From a bucket only files come that have the checksums of its manifest.
// What came from a directory and is damaged must not stay for the next pull, which takes a file of the right size for the right
// one.
func (r *run) pull(from string, stage *staging) (copied store.Copied, err error) {
	if strings.HasPrefix(from, bucket.Scheme) {
		return r.pullOnce(from, stage)
	}
	begun, err := r.FS.List(stage.path)
	if err != nil {
		return copied, file.Failed(err, "cannot list %s", stage.path)
	}
	copied, err = r.pullOnce(from, stage)
	if isWrong(err) && len(begun) > 0 { // another pull's files, perhaps, or those of a backup that was repaired since
		if err = stage.empty(); err == nil {
			copied, err = r.pullOnce(from, stage)
		}
	}
	if isWrong(err) {
		_ = stage.empty()
	}
	return copied, err
}

// isWrong says that files are damaged, or not those that are needed.
func isWrong(err error) bool {
	return codeOf(err) == exitBad || status.CodeOf(err) == status.InvalidState
}

func (r *run) pullOnce(from string, stage *staging) (copied store.Copied, err error) {
	bar := r.bar("copying")
	progress := func(done, total uint64) { bar.bytes(done, total) }
	if strings.HasPrefix(from, bucket.Scheme) {
		var place *bucket.Bucket
		if place, err = bucket.Open(r.ctx, from); err == nil {
			copied, err = archive.Pull(place, r.FS, stage.path, progress)
		}
	} else {
		copied, err = store.Backup(r.FS, from, store.Directory(r.FS, stage.path), progress)
	}
	bar.clear()
	if err == nil {
		err = r.verifyStore(stage.path)
	}
	return copied, err
}

// verifyStore reads every byte of a store.
func (r *run) verifyStore(directory string) error {
	s, err := store.Look(r.FS, directory)
	if err == nil && len(s.Lost) > 0 {
		err = s.Lost[0].Err
	}
	if err != nil {
		return err
	}
	v := verification{run: r}
	for i := range s.Points {
		if _, _, err := v.read(s.Points[i].Path); err != nil {
			return err
		}
	}
	if _, err := r.records(directory); err != nil {
		return err
	}
	return s.CheckLeads()
}
