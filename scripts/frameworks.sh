#!/bin/sh
#  Makes a Python environment with what Debian does not have and some tests want: Ray, with Ray Tune, Optuna,
#  and pyarrow.  They are PyPI's, in versions that work with Debian 12's PyTorch.
#
#      sh scripts/frameworks.sh FOLDER     250 MB to download, 700 MB in FOLDER
#
#  Then: TUREEN_FRAMEWORKS_PYTHON=FOLDER/bin/python \
#            ctest --test-dir build/release -R 'torch_tune|python_pack|python_splits'
set -eu

folder=${1:?"usage: sh scripts/frameworks.sh FOLDER"}
/usr/bin/python3 -c 'import ensurepip, venv' 2>/dev/null || {
    echo "frameworks.sh: there is no python3-venv: apt install python3-venv" >&2
    exit 1
}
echo "frameworks.sh: downloading Ray and Optuna; this takes minutes" >&2
/usr/bin/python3 -m venv --system-site-packages "$folder"
#  Debian's PyTorch is built for NumPy 1, which pandas and pyarrow support up to these versions.
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check \
    'ray[tune]==2.60.0' 'optuna==5.0.0' 'numpy==1.24.2' 'pandas==2.3.3' 'pyarrow==21.0.0'
echo "TUREEN_FRAMEWORKS_PYTHON=$folder/bin/python"
