#!/bin/sh
# Build ggscope.app and the .dmg, on macOS: packaging/macos/build.sh
#
# Without a certificate the application is signed ad hoc: it runs here, and elsewhere
# after a right click and Open. With these it is signed and notarised:
#   GGSCOPE_SIGN_AS="Developer ID Application: …"   an identity of the keychain
#   GGSCOPE_NOTARY=PROFILE                          stored by xcrun notarytool store-credentials
# This was written after the documents of Apple and PyInstaller; it has not been run on
# a Mac by hand, only read by the tests.
set -eu
cd "$(dirname "$0")/../.."
if [ "$(uname)" != Darwin ]; then
    echo "build.sh: an application for macOS can be built on macOS only; the release workflow does it." >&2
    exit 77
fi
work=build/package
mkdir -p "$work" dist

# Icons: one set from the PNGs that Linux has too.
icons=$work/ggscope.iconset
rm -rf "$icons" && mkdir -p "$icons"
id=$(sed -n 's/^APPLICATION_ID = "\(.*\)"/\1/p' app/ggscope/assets.py)
for size in 16 32 128 256 512; do
    png=resources/desktop/hicolor/${size}x${size}/apps/$id.png
    cp "$png" "$icons/icon_${size}x${size}.png"
done
cp "$icons/icon_32x32.png" "$icons/icon_16x16@2x.png"
cp "$icons/icon_256x256.png" "$icons/icon_128x128@2x.png"
cp "$icons/icon_512x512.png" "$icons/icon_256x256@2x.png"
iconutil --convert icns "$icons" --output "$work/ggscope.icns"

GGSCOPE_ICNS=$PWD/$work/ggscope.icns
GGSCOPE_ENTITLEMENTS=$PWD/packaging/macos/entitlements.plist
export GGSCOPE_ICNS GGSCOPE_ENTITLEMENTS
"${PYTHON:-python3}" packaging/package.py wheel bundle

app=$work/bundle/ggscope.app
version=$(/usr/libexec/PlistBuddy -c "Print CFBundleShortVersionString" "$app/Contents/Info.plist")
ln -sf ggscope "$app/Contents/MacOS/ggscope-capture"
plutil -lint "$app/Contents/Info.plist"
# The link came after PyInstaller's signature, so the whole is signed anew.
identity=${GGSCOPE_SIGN_AS:--}
hardened=""
[ "$identity" = - ] || hardened="--options runtime --timestamp"
# shellcheck disable=SC2086
codesign --force --deep $hardened --entitlements "$GGSCOPE_ENTITLEMENTS" --sign "$identity" "$app"
codesign --verify --deep --strict "$app"
"$app/Contents/MacOS/ggscope" self-test

image=dist/ggscope-$version-macos-$(uname -m).dmg
stage=$work/dmg
rm -rf "$stage" "$image" && mkdir -p "$stage"
cp -R "$app" "$stage/"
ln -s /Applications "$stage/Applications"
hdiutil create -volname "ggscope $version" -srcfolder "$stage" -format UDZO -ov "$image"
rm -rf "$stage"
if [ -n "${GGSCOPE_NOTARY:-}" ]; then
    [ "$identity" != - ] || { echo "build.sh: an ad-hoc signature cannot be notarised; set GGSCOPE_SIGN_AS." >&2; exit 1; }
    codesign --force --timestamp --sign "$identity" "$image"
    xcrun notarytool submit "$image" --keychain-profile "$GGSCOPE_NOTARY" --wait
    xcrun stapler staple "$image"
else
    echo "build.sh: not notarised (GGSCOPE_NOTARY is not set): people open it the first time by a right click and Open." >&2
fi
echo "$image"
