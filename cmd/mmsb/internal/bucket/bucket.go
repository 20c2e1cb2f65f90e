// Package bucket is archives in buckets of S3, and of servers that speak its language.
package bucket

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"

	"libmmsb/core/status"
)

// Scheme is how the place of a bucket begins: s3://BUCKET/PREFIX.
const Scheme = "s3://"

// Bucket is objects with a prefix in a bucket.
type Bucket struct {
	ctx          context.Context
	client       *s3.Client
	name, prefix string // the prefix is empty or ends in "/"
}

// PartBytes is the size of a part of an upload, where not more than 10000 of them would be needed. Tests have a smaller one.
var PartBytes int64 = 16 << 20

const (
	mostParts = 10000
	atATime   = 4
)

// Open takes a place like s3://bucket/prefix. Who may use it, and where the server is, the environment and the files of the AWS
// tools say; the bucket is not asked yet. Errors: InvalidArgument, IO.
func Open(ctx context.Context, place string) (*Bucket, error) {
	name, prefix, _ := strings.Cut(strings.TrimPrefix(place, Scheme), "/")
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	if !strings.HasPrefix(place, Scheme) || name == "" {
		return nil, status.Errorf(status.InvalidArgument, "%q is not s3://BUCKET or s3://BUCKET/PREFIX", place)
	}
	transport := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.ResponseHeaderTimeout = time.Minute
	})
	settings, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(transport), config.WithLogger(logging.Nop{}))
	if err != nil {
		return nil, status.Errorf(status.IO, "cannot read the settings for %s: %v", place, err)
	}
	if _, err := settings.Credentials.Retrieve(ctx); err != nil {
		return nil, status.Errorf(status.IO,
			"no credentials for %s: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile of the AWS tools: %v",
			place, err)
	}
	if settings.Region == "" {
		settings.Region = "us-east-1" // which servers of others do not ask for
	}
	client := s3.NewFromConfig(settings, func(o *s3.Options) {
		o.UsePathStyle = o.BaseEndpoint != nil // names of buckets are not names of hosts there
		// Other servers know MD5, but not all of them newer checksums.
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	})
	return &Bucket{ctx, client, name, prefix}, nil
}

// String is the place.
func (b *Bucket) String() string { return Scheme + strings.TrimSuffix(b.name+"/"+b.prefix, "/") }

// failed makes the library's error of one of the client.
func (b *Bucket) failed(err error, does, key string) error {
	if err == nil {
		return nil
	}
	if b.ctx.Err() != nil {
		return status.Errorf(status.Cancelled, "cancelled: %v", context.Cause(b.ctx))
	}
	code, where := status.IO, strings.TrimSuffix(b.String()+"/"+key, "/")
	var said smithy.APIError
	var answer *awshttp.ResponseError
	var sent *url.Error
	isAnswer := errors.As(err, &answer)
	switch {
	case errors.As(err, &said):
		switch said.ErrorCode() {
		case "NoSuchKey", "NotFound", "NoSuchUpload":
			code = status.NotFound
		case "NoSuchBucket":
			return status.Errorf(status.InvalidState, "cannot %s %s: there is no bucket %q", does, where, b.name)
		case "InvalidRange":
			code = status.OutOfRange
		}
		text := said.ErrorCode()
		if said.ErrorMessage() != "" {
			text += ", " + said.ErrorMessage()
		}
		if isAnswer {
			text += fmt.Sprintf(" (HTTP %d)", answer.HTTPStatusCode())
		}
		return status.Errorf(code, "cannot %s %s: %s", does, where, text)
	case errors.As(err, &sent):
		return status.Errorf(code, "cannot %s %s: %s: %v", does, where, sent.URL, sent.Err)
	}
	return status.Errorf(code, "cannot %s %s: %v", does, where, err)
}

func (b *Bucket) key(key string) *string { return aws.String(b.prefix + key) }

// List is described at archive.Objects.
func (b *Bucket) List(prefix string) (map[string]int64, error) {
	found := make(map[string]int64)
	pages := s3.NewListObjectsV2Paginator(b.client, &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: b.key(prefix)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(b.ctx)
		if err != nil {
			return nil, b.failed(err, "list", prefix)
		}
		for _, object := range page.Contents {
			found[strings.TrimPrefix(aws.ToString(object.Key), b.prefix)] = aws.ToInt64(object.Size)
		}
	}
	return found, nil
}

// Get is described at archive.Objects.
func (b *Bucket) Get(key string, offset int64) (io.ReadCloser, error) {
	input := &s3.GetObjectInput{Bucket: &b.name, Key: b.key(key)}
	if offset > 0 {
		input.Range = aws.String(fmt.Sprintf("bytes=%d-", offset))
	}
	output, err := b.client.GetObject(b.ctx, input)
	if err != nil {
		return nil, b.failed(err, "read", key)
	}
	return &body{output.Body, b, key}, nil
}

// body has errors of the library.
type body struct {
	io.ReadCloser
	b   *Bucket
	key string
}

func (r *body) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = r.b.failed(err, "read", r.key)
	}
	return n, err
}

// Delete is described at archive.Objects.
func (b *Bucket) Delete(key string) error {
	_, err := b.client.DeleteObject(b.ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: b.key(key)})
	return b.failed(err, "delete", key)
}

// sumOf is what the server compares what it gets with.
func sumOf(content []byte) *string {
	sum := md5.Sum(content)
	return aws.String(base64.StdEncoding.EncodeToString(sum[:]))
}

// Put is described at archive.Objects.
func (b *Bucket) Put(key string, content io.ReaderAt, size int64, sent func(bytes int64)) error {
	if size > PartBytes {
		return b.putParts(key, content, size, sent)
	}
	all := make([]byte, size)
	if _, err := io.ReadFull(io.NewSectionReader(content, 0, size), all); err != nil {
		return err
	}
	_, err := b.client.PutObject(b.ctx, &s3.PutObjectInput{Bucket: &b.name, Key: b.key(key), Body: bytes.NewReader(all),
		ContentMD5: sumOf(all)})
	if err == nil {
		sent(size)
	}
	return b.failed(err, "write", key)
}

// upload is one of several parts.
type upload struct {
	*Bucket
	key     string
	id      *string
	content io.ReaderAt
	size    int64
	part    int64 // bytes of each but the last

	sync.Mutex
	sent   func(bytes int64)
	done   []types.CompletedPart
	failed error
}

func (u *upload) length(number int64) int64 { return min(u.part, u.size-(number-1)*u.part) }

func (b *Bucket) putParts(key string, content io.ReaderAt, size int64, sent func(bytes int64)) error {
	part := max(PartBytes, (size-1)/mostParts+1)
	u := &upload{Bucket: b, key: key, content: content, size: size, part: part, sent: sent}
	if err := u.begin(); err != nil {
		return err
	}
	there := make(map[int64]bool, len(u.done))
	for _, part := range u.done {
		there[int64(aws.ToInt32(part.PartNumber))] = true
	}
	numbers := make(chan int64)
	var workers sync.WaitGroup
	for range atATime {
		workers.Go(func() {
			for number := range numbers {
				u.send(number)
			}
		})
	}
	for number := int64(1); (number-1)*part < size; number++ {
		if !there[number] {
			numbers <- number
		}
	}
	close(numbers)
	workers.Wait()
	if u.failed != nil {
		return u.failed
	}
	slices.SortFunc(u.done, func(x, y types.CompletedPart) int { return int(*x.PartNumber - *y.PartNumber) })
	_, err := b.client.CompleteMultipartUpload(b.ctx, &s3.CompleteMultipartUploadInput{Bucket: &b.name, Key: b.key(key),
		UploadId: u.id, MultipartUpload: &types.CompletedMultipartUpload{Parts: u.done}})
	return b.failed(err, "complete", key)
}

// begin goes on with an upload that a killed process has left, or begins one.
func (u *upload) begin() error {
	left, err := u.uploads(u.key)
	if err != nil {
		return err
	}
	for _, one := range left {
		if aws.ToString(one.Key) != *u.Bucket.key(u.key) {
			continue
		}
		parts := s3.NewListPartsPaginator(u.client, &s3.ListPartsInput{Bucket: &u.name, Key: one.Key, UploadId: one.UploadId})
		u.id, u.done = one.UploadId, nil
		for parts.HasMorePages() {
			page, err := parts.NextPage(u.ctx)
			if err != nil {
				return u.Bucket.failed(err, "list the parts of", u.key)
			}
			for _, part := range page.Parts {
				number := int64(aws.ToInt32(part.PartNumber))
				if (number-1)*u.part < u.size && aws.ToInt64(part.Size) == u.length(number) {
					u.done = append(u.done, types.CompletedPart{ETag: part.ETag, PartNumber: part.PartNumber})
				}
			}
		}
		return nil
	}
	begun, err := u.client.CreateMultipartUpload(u.ctx, &s3.CreateMultipartUploadInput{Bucket: &u.name, Key: u.Bucket.key(u.key)})
	if err != nil {
		return u.Bucket.failed(err, "begin", u.key)
	}
	u.id = begun.UploadId
	return nil
}

// send sends a part, unless one has failed.
func (u *upload) send(number int64) {
	u.Lock()
	failed := u.failed != nil
	u.Unlock()
	if failed {
		return
	}
	part := make([]byte, u.length(number))
	_, err := io.ReadFull(io.NewSectionReader(u.content, (number-1)*u.part, int64(len(part))), part)
	var output *s3.UploadPartOutput
	if err == nil {
		output, err = u.client.UploadPart(u.ctx, &s3.UploadPartInput{Bucket: &u.name, Key: u.Bucket.key(u.key), UploadId: u.id,
			PartNumber: aws.Int32(int32(number)), Body: bytes.NewReader(part), ContentMD5: sumOf(part)})
		err = u.Bucket.failed(err, "write", u.key)
	}
	u.Lock()
	defer u.Unlock()
	if err != nil {
		u.failed = err
		return
	}
	u.done = append(u.done, types.CompletedPart{ETag: output.ETag, PartNumber: aws.Int32(int32(number))})
	u.sent(int64(len(part)))
}

// uploads are those that have not ended.
func (b *Bucket) uploads(prefix string) (found []types.MultipartUpload, err error) {
	input := &s3.ListMultipartUploadsInput{Bucket: &b.name, Prefix: b.key(prefix)}
	for {
		page, err := b.client.ListMultipartUploads(b.ctx, input)
		err = b.failed(err, "list the uploads of", prefix)
		if status.CodeOf(err) == status.NotFound { // what some servers say of none
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		found = append(found, page.Uploads...)
		if !aws.ToBool(page.IsTruncated) {
			return found, nil
		}
		input.KeyMarker, input.UploadIdMarker = page.NextKeyMarker, page.NextUploadIdMarker
	}
}

// Tidy is described at archive.Objects.
func (b *Bucket) Tidy(prefix string) error {
	left, err := b.uploads(prefix)
	for _, one := range left {
		if err == nil {
			_, err = b.client.AbortMultipartUpload(b.ctx, &s3.AbortMultipartUploadInput{Bucket: &b.name, Key: one.Key,
				UploadId: one.UploadId})
			err = b.failed(err, "end an upload of", strings.TrimPrefix(aws.ToString(one.Key), b.prefix))
		}
	}
	return err
}
