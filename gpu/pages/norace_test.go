//go:build !race

package pages

const raceDetector = false
