# An image for CPU that serves models, and trains, translates, classifies and exports:
#
#   docker build -t tfx-transformer .
#   docker run --user "$(id -u)" -e HOME=/tmp -v "$PWD:/data" tfx-transformer train translate_cldr --folder runs/dates
#   docker run --user "$(id -u)" -e HOME=/tmp -v "$PWD:/data" tfx-transformer translate runs/dates "April 9, 2025"
#   docker run -i --user "$(id -u)" -e HOME=/tmp -v "$PWD:/data" tfx-transformer translate runs/dates < lines.txt
#   docker run -p 8501:8501 -p 8500:8500 -v "$PWD:/data" tfx-transformer serve --host 0.0.0.0 mine/served
FROM python:3.12-slim
COPY pyproject.toml README.md LICENSE /source/
COPY tfx_transformer /source/tfx_transformer
COPY models /source/models
COPY train /source/train
RUN pip install --no-cache-dir "/source[captions,convert,serve]" && rm -r /source
RUN useradd --create-home --uid 1000 user && install --directory --owner user /data
USER user
WORKDIR /data
EXPOSE 8501 8500
ENTRYPOINT ["tfx-transformer"]
CMD ["--help"]
