-- Headers and Reply-To of a template's and a campaign's e-mails: {"headers": {name: value}, "reply_to": {"address", "name"}}. A campaign's beat its templates'.
ALTER TABLE fairpost.templates ADD COLUMN header_fields jsonb;
ALTER TABLE fairpost.campaigns ADD COLUMN header_fields jsonb;
