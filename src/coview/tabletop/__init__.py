"""The embedded world `tabletop:`: scenes, their paintings and their descriptions."""
