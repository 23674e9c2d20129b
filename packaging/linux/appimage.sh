#!/bin/sh
# Make an AppImage of the bundle: packaging/linux/appimage.sh
# After `make package`. appimagetool is not packaged by Debian; name yours in
# APPIMAGETOOL, from https://github.com/AppImage/appimagetool/releases.
set -eu
cd "$(dirname "$0")/../.."
tool=${APPIMAGETOOL:-appimagetool}
if ! command -v "$tool" >/dev/null 2>&1; then
    echo "appimage.sh: appimagetool is not here. Download it from https://github.com/AppImage/appimagetool/releases and say APPIMAGETOOL=/path/to/it." >&2
    exit 77
fi
if [ ! -x build/package/bundle/ggscope/ggscope ]; then
    echo "appimage.sh: there is no bundle. Run: make package" >&2
    exit 1
fi
version=$(build/package/bundle/ggscope/ggscope --version | cut -d' ' -f2)
folder=build/package/AppDir
.venv/bin/python -c "
import sys; sys.path.insert(0, 'packaging')
import package, pathlib; package.tree(pathlib.Path('$folder'))"
id=$(basename "$folder"/usr/share/applications/*.desktop .desktop)
cp "$folder/usr/share/applications/$id.desktop" "$folder/"
cp "$folder/usr/share/icons/hicolor/256x256/apps/$id.png" "$folder/"
# The name by which it was called says which of the two commands to run.
cat >"$folder/AppRun" <<'RUN'
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
case "$(basename "${ARGV0:-ggscope}")" in
    ggscope-capture*) exec "$here/usr/bin/ggscope-capture" "$@" ;;
    *) exec "$here/usr/bin/ggscope" "$@" ;;
esac
RUN
chmod +x "$folder/AppRun"
mkdir -p dist
ARCH=$(uname -m) "$tool" --no-appstream "$folder" "dist/ggscope-$version-$(uname -m).AppImage"
rm -rf "$folder"
