# An image for CPU that trains, translates, classifies and exports:
#
#   docker build -t tfx-transformer .
#   docker run -v "$PWD:/work" tfx-transformer train translate_cldr --folder runs/dates
#   docker run -v "$PWD:/work" tfx-transformer translate runs/dates "April 9, 2025"
#   docker run -i -v "$PWD:/work" tfx-transformer translate runs/dates < lines.txt
FROM python:3.12-slim
COPY pyproject.toml README.md LICENSE /source/
COPY tfx_transformer /source/tfx_transformer
COPY models /source/models
COPY train /source/train
RUN pip install --no-cache-dir "/source[captions,convert]" && rm -r /source
RUN useradd --create-home --uid 1000 user && install --directory --owner user /work
USER user
WORKDIR /work
ENTRYPOINT ["tfx-transformer"]
CMD ["--help"]
