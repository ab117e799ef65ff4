# Installs the project here, and what it needs, into /opt/venv.

export PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_PROGRESS_BAR=off
python3 -m venv /pip
how=$(/pip/bin/python /network/start.py uv)
if [ -n "$how" ]; then
	frozen=--frozen
	[ "$how" = locked ] || frozen=
	/pip/bin/pip install --quiet uv
	[ -z "${PIP_INDEX_URL-}" ] || export UV_DEFAULT_INDEX="$PIP_INDEX_URL"
	UV_PROJECT_ENVIRONMENT=/opt/venv \
		/pip/bin/uv sync $frozen --no-dev --no-editable --no-cache --no-progress --python "$(command -v python3)"
	exit
fi
python3 -m venv --without-pip /opt/venv
if [ -e requirements.txt ]; then
	/pip/bin/pip --python /opt/venv/bin/python install -r requirements.txt
fi
if [ -e pyproject.toml ]; then
	/pip/bin/python /network/start.py requirements >/network/requirements.txt
	/pip/bin/pip --python /opt/venv/bin/python install -r /network/requirements.txt
fi
