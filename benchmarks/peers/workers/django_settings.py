"""Minimal Django settings that queue and send: the defaults, except for the database and the mail server."""

import os

INSTALLED_APPS = [os.environ["QUEUE_APP"]]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ["PGDATABASE"],
        "USER": os.environ["PGUSER"],
        "HOST": os.environ["PGHOST"],
        "PORT": os.environ["PGPORT"],
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates"}]
EMAIL_HOST = os.environ["SINK_HOST"]
EMAIL_PORT = int(os.environ["SINK_PORT"])

if INSTALLED_APPS == ["mailer"]:
    EMAIL_BACKEND = "mailer.backend.DbBackend"
    MAILER_USE_FILE_LOCK = False  # after a kill, the lock file would block every later run; the database lock is enough
else:
    EMAIL_BACKEND = "post_office.EmailBackend"
