#!/bin/sh
# Build the image of the version in pyproject.toml, with buildah, and list its contents.
#
#   ops/container/build.sh [BUILDAH-OPTIONS…]
#
# The list is a bill of materials in CycloneDX format, written by syft if it is installed. BUILDAH may contain
# options, as in smoke.sh, and SOURCE is the URL of the sources in the image's labels.
set -eu
cd "$(dirname "$(readlink -f "$0")")/../.."
buildah=${BUILDAH:-buildah}
version=$(sed -n 's/^version = "\([^"]*\)".*/\1/p' pyproject.toml)
date=$(sed -n "s/^## $version - \([0-9-]*\)\$/\1/p" CHANGELOG.md)
date=${date:-$(date --utc +%F)} # the section of a version in development has no date
image=localhost/authorizerd:$version
# The time of all files is the version's date, so that the same sources give the same layers.
$buildah build --format docker --file ops/container/Containerfile --tag "$image" --tag localhost/authorizerd:latest \
    --timestamp "$(date --utc --date "$date" +%s)" \
    --build-arg VERSION="$version" --build-arg CREATED="${date}T00:00:00Z" \
    --build-arg REVISION="$(git rev-parse HEAD 2>/dev/null || echo unknown)" \
    --build-arg SOURCE="${SOURCE:-unknown}" "$@" .
if ! command -v "${SYFT:-syft}" >/dev/null; then
    echo "syft is not installed: there is no bill of materials" >&2
    exit
fi
container=$($buildah from --pull-never "$image")
trap '$buildah rm "$container" >/dev/null' EXIT
root=$($buildah mount "$container")
mkdir -p "dist/$version"
"${SYFT:-syft}" scan --quiet --select-catalogers=-file --source-name authorizerd --source-version "$version" \
    --output "cyclonedx-json=dist/$version/authorizerd-$version-image.cdx.json" "dir:$root"
$buildah umount "$container" >/dev/null
echo "dist/$version/authorizerd-$version-image.cdx.json"
