# One image for a dev container, Binder, and the workers of a grading cluster (docs/cluster.md).
#   docker build -t course . && docker run --rm -p 8888:8888 course
# It needs no GPU and no compiler: ptxas is in the triton wheel, torch is the CPU build.
FROM python:3.12-slim

# git for dev containers; make for `make test`
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git make \
    && rm -rf /var/lib/apt/lists/*

# Binder says who the user is
ARG NB_USER=student
ARG NB_UID=1000
ENV USER=${NB_USER} \
    HOME=/home/${NB_USER}
RUN useradd --create-home --home-dir ${HOME} --uid ${NB_UID} ${NB_USER}

WORKDIR ${HOME}/course
COPY --chown=${NB_UID}:${NB_UID} . .
RUN chown ${NB_UID}:${NB_UID} .
USER ${NB_USER}
RUN PIP_NO_CACHE_DIR=1 python start.py --install cluster

# what runs here finds course, jupyter and dask without activating anything
ENV PATH=${HOME}/course/.venv/bin:${PATH} \
    OMP_NUM_THREADS=1 \
    JUPYTER_PREFER_ENV_PATH=1
EXPOSE 8888
CMD ["course", "lab", "--ip=0.0.0.0", "--no-browser"]
