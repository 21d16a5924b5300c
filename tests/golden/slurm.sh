#!/usr/bin/env bash

#SBATCH -J dask-worker
#SBATCH -p standard
#SBATCH -n 1
#SBATCH --cpus-per-task=16
#SBATCH --mem=60G
#SBATCH -t 04:00:00

python -m distributed.cli.dask_worker tls://10.0.0.1:8786 --name dummy-name --nthreads 1 --memory-limit 3.73GiB --nworkers 16 --nanny --death-timeout 60 --lifetime 230m --lifetime-stagger 5m --protocol tls:// --tls-ca-file .dask-jobqueue.worker.ca_file --tls-cert .dask-jobqueue.worker.cert --tls-key .dask-jobqueue.worker.key
