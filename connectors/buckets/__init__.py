"""The snapshot in a bucket of S3, Google Cloud Storage or Azure."""
