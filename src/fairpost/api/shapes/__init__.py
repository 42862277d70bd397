"""Request and response models, with one file per noun. The models contain no logic."""
