"""Request and response models, with one file per noun. They contain no logic."""
